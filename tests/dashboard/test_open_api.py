import re
from pathlib import Path

import msgspec

from quorate.api import codec
from quorate.dashboard.serving.operations import OPERATIONS, PREFIX, open_api_document

COMMITTED = Path(__file__).parents[2] / "dashboard" / "openapi.json"


def test_the_committed_document_of_the_page_types_is_that_of_the_code() -> None:
    document = msgspec.json.decode(msgspec.json.encode(open_api_document()))
    assert msgspec.json.decode(COMMITTED.read_bytes()) == document, "run make dashboard"


def test_each_reference_of_the_document_leads_to_a_schema() -> None:
    document = open_api_document()
    encoded = codec.encode(document).decode()
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', encoded))
    assert referred == set(document["components"]["schemas"])


def test_each_operation_is_in_the_document_with_its_parameters() -> None:
    document = open_api_document()
    found = {
        (path, method): [(each["in"], each["name"]) for each in operation["parameters"]]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert len(found) == len(OPERATIONS) == len({each.id for each in OPERATIONS})
    assert found["/api/v1/workloads/{namespace}/{name}/stop", "post"] == [
        ("path", "namespace"),
        ("path", "name"),
        ("header", "X-CSRF-Token"),
    ]
    assert found[f"{PREFIX}/history/overview", "get"] == [("query", "range")]


def test_fields_that_may_be_null_are_required_and_nullable() -> None:
    row = open_api_document()["components"]["schemas"]["WorkloadRow"]
    assert "startsP50" in row["required"]
    assert {"type": "null"} in row["properties"]["startsP50"]["anyOf"]
