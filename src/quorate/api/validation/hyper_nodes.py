"""Validation of HyperNodes beyond the schema of their CRD.

The rules are Volcano's (1.15).  Those about selectors are in the schema too; a cluster may have an older one.
"""

from quorate.api.findings import Finding
from quorate.api.go_regexp import InvalidPattern, Pattern
from quorate.api.validation.fields import Findings
from quorate.api.volcano.topology import HyperNode, MemberSelector


def hyper_node_findings(hyper_node: HyperNode) -> Findings:
    spec = hyper_node.spec
    if spec.tier < 0:
        yield Finding("spec.tier", spec.tier, "is negative, must be at least 0")
    if not spec.members:
        yield Finding("spec.members", [], "is empty, must have at least one member")
    for at, member in enumerate(spec.members):
        yield from _selector_findings(f"spec.members[{at}].selector", member.selector)


def _selector_findings(path: str, selector: MemberSelector) -> Findings:
    given = {
        "exactMatch": selector.exact_match,
        "regexMatch": selector.regex_match,
        "labelMatch": selector.label_match,
    }
    names = [name for name, criterion in given.items() if criterion is not None]
    if len(names) != 1:
        rule = "must have exactly one of exactMatch, regexMatch and labelMatch"
        yield Finding(path, names, rule)
    if selector.regex_match is not None:
        pattern = selector.regex_match.pattern
        try:
            Pattern(pattern)
        except InvalidPattern as error:
            yield Finding(f"{path}.regexMatch.pattern", pattern, f"is no regular expression of RE2: {error}")
