"""JSONPath of printer columns; the results are those of client-go's ``util/jsonpath`` 0.36."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.local.objects.tables.json_path import compile_path

OBJECT = {
    "spec": {"size": 1, "a.b": "dotted", "none": None},
    "list": [
        {"type": "Ready", "status": "True", "n": 1},
        {"type": "Other", "status": "False", "n": 2},
        {"type": "x'y", "n": 3},
    ],
    "matrix": [[1, 2], [3]],
    "empty": [],
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".spec.size", [1]),
        (".spec.none", [None]),
        (".spec.missing", []),
        (r".spec.a\.b", ["dotted"]),
        (r".spec['a\.b']", ["dotted"]),
        pytest.param(".spec['a.b']", [], id="a dot in quotes separates names"),
        (".spec['size']", [1]),
        (".list[0].type", ["Ready"]),
        (".list[-1].type", ["x'y"]),
        (".list[-1:].type", ["x'y"]),
        (".list[-2:].n", [2, 3]),
        (".list[:2].n", [1, 2]),
        (".list[0:3:2].n", [1, 3]),
        (".list[::2].n", [1, 3]),
        (".list[0,2].n", [1, 3]),
        (".list[*].n", [1, 2, 3]),
        (".list[9].n", []),
        (".list[2:9].n", []),
        (".list[2:1].n", []),
        (".list[::0].n", []),
        (".empty[-1:].n", []),
        (".matrix[*][0]", [1, 3]),
        (".matrix[*].*", [1, 2, 3]),
        ('.list[?(@.type=="Ready")].status', ["True"]),
        (".list[?(@.type=='Other')].status", ["False"]),
        ('.list[?(@.type != "Ready")].n', [2, 3]),
        pytest.param(".list[?(@.status)].n", [1, 2], id="a field that exists"),
        (".list[?(@.n>1)].n", [2, 3]),
        (".list[?(@.n<=2)].n", [1, 2]),
        (".list[?(@.n>=2)].n", [2, 3]),
        (".list[?(@.n<2)].n", [1]),
        (r""".list[?(@.type=='x\'y')].n""", [3]),
        (r'.list[?(@.type=="\u0052eady")].n', [1]),
        pytest.param(".list[?(@.n==1.0)].n", [], id="an integer and a float cannot be compared"),
        pytest.param('.list[?(@.n=="1")].n', [], id="an integer and a text cannot be compared"),
        pytest.param(".spec[?(@.n==1)].n", [], id="a map cannot be filtered"),
        ("..n", [1, 2, 3]),
        ("..size", [1]),
        (".list..type", ["Ready", "Other", "x'y"]),
    ],
)
def test_values_at_a_path(path: str, want: list[Any]) -> None:
    assert compile_path(path)(OBJECT) == want


@pytest.mark.parametrize(
    "path",
    [
        ".a[",
        ".a[x]",
        ".a[-]",
        '.a["b"]',
        ".a[?(@]",
        ".a[?(@.b)",
        ".a[?(@.b=='c)]",
        ".a....b",
        ".a[0]|b",
        ".a[?(@.b=='\\q')]",
        "{.a}",
        ".a\n",
        "..*",
    ],
)
def test_an_invalid_path_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match="not a JSONPath"):
        compile_path(path)


TOKENS = st.sampled_from(
    [
        *(".a", ".b", "..", "..a", ".*", "[*]", "[0]", "[-1:]", "[::2]", "[0,*]", "['a']", "[?(@.a)]", "[?("),
        *(
            "[?(@..a==1)]",
            "[?(@.a>'b')]",
            "\\",
            "'",
            '"x"',
            "}",
            "@",
            "5",
            "true",
            "range",
            "[",
            "]",
            "(",
            "é",
            " ",
        ),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.sampled_from("abc"), parts, max_size=3),
)


@given(path=st.lists(TOKENS, max_size=8).map("".join) | st.text(max_size=12), obj=JSON)
def test_any_text_is_a_path_or_rejected_and_any_path_reads_any_object(path: str, obj: Any) -> None:
    try:
        find = compile_path(f".{path}")
    except ValueError:
        return
    assert isinstance(find(obj), list)


@pytest.mark.parametrize(
    "path", [".a" + "[*,*]" * 60, "." + "..a" * 30, ".a" + "[*]" * 60, ".a[?(@..a..a..a)]"]
)
def test_a_path_that_would_select_without_bound_selects_nothing_soon(path: str) -> None:
    obj: Any = [1]
    for _ in range(70):
        obj = [obj, {"a": obj}]
        if len(str(obj)) > 50_000:
            break

    def measured_s() -> float:
        began = time.thread_time()
        compile_path(path)({"a": obj})
        return time.thread_time() - began

    assert min(measured_s() for _ in range(3)) < 0.05  # a collection of garbage may be in one of them
