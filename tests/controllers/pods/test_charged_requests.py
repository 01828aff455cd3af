"""A gated pod starts only with requests for which its workload is charged."""

from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.configuration.queueing import ResourceOptions, Transformation
from quorate.api.core import Resources
from quorate.api.core.pod import Pod, PodMeta
from quorate.api.kueue import PodSet, PodSetAssignment
from quorate.api.names.kueue import MANAGED
from quorate.controllers.pods.pod_kind import uncharged_requests

GPU = "example.com/gpu"
CREDITS = ResourceOptions(
    transformations=(
        Transformation(input=GPU, strategy="Replace", outputs=codec.convert(Resources, {"credits": "3"})),
    )
)


def spec(**requests: str) -> dict[str, Any]:
    named = {name.replace("gpu", GPU): amount for name, amount in requests.items()}
    gate = {"name": "kueue.x-k8s.io/admission"}
    return {"containers": [{"resources": {"requests": named}}], "schedulingGates": [gate]}


@pytest.mark.parametrize(
    ("requests", "usage", "options", "want"),
    [
        pytest.param({"cpu": "1"}, {"cpu": "3"}, ResourceOptions(), "", id="what is charged"),
        pytest.param({"cpu": "500m"}, {"cpu": "3"}, ResourceOptions(), "", id="less"),
        pytest.param({"cpu": "8"}, {"cpu": "3"}, ResourceOptions(), "cpu 8, charged 1", id="more"),
        pytest.param({"cpu": "1"}, {"cpu": "1500m"}, ResourceOptions(), "", id="reserved by another program"),
        pytest.param(
            {"cpu": "2"}, {"cpu": "1500m"}, ResourceOptions(), "cpu 2, charged 500m", id="more than either"
        ),
        pytest.param({"memory": "9Gi"}, {"cpu": "3"}, ResourceOptions(), "", id="without quota for it"),
        pytest.param(
            {"cpu": "1", "gpu": "2"},
            {"cpu": "3"},
            ResourceOptions(),
            f"{GPU} 2, charged 0",
            id="a device that the pod set does not have",
        ),
        pytest.param({"gpu": "2"}, {"credits": "18"}, CREDITS, "", id="transformed"),
        pytest.param({"gpu": "2"}, {"credits": "9"}, CREDITS, "credits 6, charged 3", id="transformed, more"),
    ],
)
def test_uncharged_requests(
    requests: dict[str, str], usage: dict[str, str], options: ResourceOptions, want: str
) -> None:
    """The pod set has three pods of one cpu."""
    pod = Pod(
        metadata=PodMeta(name="p", labels={MANAGED: "true"}),
        written=msgspec.Raw(codec.encode(spec(**requests))),
    )
    template = msgspec.Raw(codec.encode({"spec": spec(cpu="1")}))
    assignment = PodSetAssignment(count=3, resource_usage=codec.convert(Resources, usage))
    assert uncharged_requests(pod, PodSet(count=3, template=template), assignment, options) == want
