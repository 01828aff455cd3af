"""How the commands of a page are read, and how an output is compared with what the page shows."""

import pytest

from tests.docs.walk import File, Step
from tests.newcomer.pages import Shown, blocks_of, shows

PAGE = """
```yaml title="a.yaml"
kind: Job
```

1. First:

        quorate queue list   # a comment
        kubectl apply -f - <<END
        kind: Job
        END

   Then:

    $ quorate explain job/a
    State:  Queued

```console
$ kubectl get jobs
NAME
```

    error: what it prints
"""


def test_files_commands_and_other_code_are_told_apart() -> None:
    assert list(blocks_of(PAGE)) == [
        File("a.yaml", "kind: Job\n"),
        Step("quorate queue list", ""),
        Step("kubectl apply -f - <<END\nkind: Job\nEND", ""),
        Step("quorate explain job/a", ""),
        Shown("State:  Queued\n", after_command=True),
        Step("kubectl get jobs", "NAME\n"),
        Shown("error: what it prints\n"),
    ]


@pytest.mark.parametrize(
    ("output", "shown", "same"),
    [
        pytest.param("a  3 s\n", "a 12 s\n", True, id="numbers differ"),
        pytest.param("job-train-46aa2\n", "job-train-bb8a8\n", True, id="hashes differ"),
        pytest.param("a\nmore\nb\n", "a\n...\nb\n", True, id="lines between"),
        pytest.param("b\na\n", "a\nb\n", False, id="another order"),
        pytest.param("State: Queued\n", "State: Held\n", False, id="another word"),
        pytest.param("end\n", "  2.0 s  job1: Starting\nend\n", True, id="progress that was skipped"),
        pytest.param("job1 stuck\n", "job1 completed after 3 s\n", False, id="another result"),
    ],
)
def test_outputs(output: str, shown: str, same: bool) -> None:
    assert shows(output, shown) is same
