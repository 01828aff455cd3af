"""The parser of task pages and the comparison of outputs."""

import pytest

from tests.docs.walk import File, Step, blocks, matches_output

PAGE = """
```yaml title="job.yaml"
kind: Job
```

Then:

```console
$ kubectl create -f job.yaml
job.batch/a created
$ kubectl get jobs
NAME   AGE
a      ...
```

```yaml
kind: not a file
```
"""


def test_a_page_is_read_as_files_and_steps() -> None:
    assert list(blocks(PAGE)) == [
        File("job.yaml", "kind: Job\n"),
        Step("kubectl create -f job.yaml", "job.batch/a created"),
        Step("kubectl get jobs", "NAME   AGE\na      ...\n"),
    ]
    assert [block.reads for block in blocks(PAGE) if isinstance(block, Step)] == [False, True]


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        pytest.param("a  b\n", "a b", True, id="blanks are ignored"),
        pytest.param("a 17s\n", "a ...", True, id="dots match any text"),
        pytest.param("a 17s\nb 3s\n", "a ...\n", False, id="dots in a line match within that line"),
        pytest.param("x\ny\nz\n", "...\nz", True, id="a line of dots matches any lines"),
        pytest.param("x\ny\n", "x\n...\ny", True, id="a line of dots matches no line"),
        pytest.param("y\n", "...\ny\n...", True, id="a line of dots matches no line at either end"),
        pytest.param("x\nwhy\n", "x\n...\ny", False, id="a line of dots matches complete lines only"),
        pytest.param("a.b", "a-b", False, id="other characters match literally"),
    ],
)
def test_outputs(output: str, expected: str, same: bool) -> None:
    assert matches_output(output, expected) is same
