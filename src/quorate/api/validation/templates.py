"""What pod templates ask for, wherever they are."""

from collections.abc import Iterator

from quorate.api.core import PodTemplate, ResourceRequirements


def requirements(path: str, template: PodTemplate) -> Iterator[tuple[str, ResourceRequirements]]:
    """Of each container and of the pod as a whole, with where they stand in the template at ``path``."""
    for field, containers in (
        ("initContainers", template.spec.init_containers),
        ("containers", template.spec.containers),
    ):
        for at, container in enumerate(containers):
            yield f"{path}.spec.{field}[{at}].resources", container.resources
    yield f"{path}.spec.resources", template.spec.resources
