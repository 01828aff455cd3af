"""Who may do what: here, whoever has a token may do everything.

Questions are answered, not stored.  Role-based rules are stored like any object and not yet obeyed.
"""

from typing import Any

from quorate.local.server import answers
from quorate.local.server.answers import Answer
from quorate.local.server.bodies import read_object
from quorate.local.server.call import Call

Json = dict[str, Any]

GROUP = "authorization.k8s.io"
SCOPES = {
    "LocalSubjectAccessReview": True,
    "SelfSubjectAccessReview": False,
    "SelfSubjectRulesReview": False,
    "SubjectAccessReview": False,
}
"""The kinds of question, and whether each is about one namespace."""

EVERYTHING: Json = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


async def review(call: Call) -> Answer:
    """POST: the question, with the answer as its status."""
    question = read_object(call, call.kind, "CreateOptions")
    question.setdefault("metadata", {})
    rules = call.kind.kind == "SelfSubjectRulesReview"
    question["status"] = (
        EVERYTHING if rules else {"allowed": True, "reason": "every known user may do everything"}
    )
    return answers.document(call, question, 201)
