"""HyperNodes that the webhook refuses."""

from typing import Any

import pytest

from quorate.api.codec import convert
from quorate.api.validation.hyper_nodes import hyper_node_findings
from quorate.api.volcano.topology import HyperNode

Json = dict[str, Any]


def node(**selector: Any) -> Json:
    return {"type": "Node", "selector": selector}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        pytest.param({"tier": 1, "members": [node(exactMatch={"name": "node-1"})]}, [], id="one node"),
        pytest.param({"tier": 0, "members": [node(regexMatch={"pattern": "^node-[0-9]+$"})]}, [], id="names"),
        pytest.param({"tier": 1, "members": [node(labelMatch={"matchLabels": {"a": "b"}})]}, [], id="labels"),
        pytest.param(
            {"tier": -1, "members": []},
            [
                "spec.tier: -1 is negative, must be at least 0",
                "spec.members: [] is empty, must have at least one member",
            ],
            id="all findings are listed",
        ),
        pytest.param(
            {"tier": 1, "members": [node(), node(exactMatch={"name": "a"}, regexMatch={"pattern": "a"})]},
            [
                "spec.members[0].selector: [] must have exactly one of exactMatch, regexMatch and labelMatch",
                'spec.members[1].selector: ["exactMatch", "regexMatch"] must have exactly one of exactMatch, '
                "regexMatch and labelMatch",
            ],
            id="no selector, and two",
        ),
        pytest.param(
            {"tier": 1, "members": [node(regexMatch={"pattern": "node-("})]},
            [
                "spec.members[0].selector.regexMatch.pattern: 'node-(' is no regular expression of RE2: "
                "missing ): node-("
            ],
            id="an invalid expression",
        ),
        pytest.param(
            {"tier": 1, "members": [node(regexMatch={"pattern": "(a)\\1"})]},
            [
                "spec.members[0].selector.regexMatch.pattern: '(a)\\\\1' is no regular expression of RE2: "
                "invalid escape sequence: \\1"
            ],
            id="a back reference, which takes exponential time elsewhere",
        ),
    ],
)
def test_findings(spec: Json, found: list[str]) -> None:
    hyper_node = convert(HyperNode, {"metadata": {"name": "a"}, "spec": spec})
    assert [str(each) for each in hyper_node_findings(hyper_node)] == found
