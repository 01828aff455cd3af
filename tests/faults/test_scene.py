"""Generated scenes contain only valid objects."""

from quorate.api.validation import manifest_findings
from tests.faults.scene import generate_scene


def test_generated_scenes_are_valid() -> None:
    broken = {
        f"{seed} {resource.kind} {body['metadata']['name']}": list(map(str, findings))
        for seed in range(200)
        for resource, body in generate_scene(seed).objects
        if (
            findings := manifest_findings({"apiVersion": resource.api_version, "kind": resource.kind, **body})
        )
    }
    assert broken == {}
