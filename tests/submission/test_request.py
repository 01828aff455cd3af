"""The forms in which users write amounts, times and arrays, and what cannot be asked for."""

import pytest
from msgspec.structs import replace

from quorate.submission.request import (
    Array,
    InvalidRequest,
    JobRequest,
    check,
    parse_array,
    parse_memory,
    parse_time,
)

PLAIN = JobRequest(name="train", command=("python", "train.py"))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2h", 7200),
        ("1h30m", 5400),
        ("90", 5400),  # minutes, as in Slurm
        ("10:30", 630),
        ("02:00:00", 7200),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-00:00:01", 86_401),
    ],
)
def test_times_are_those_of_go_and_of_slurm(written: str, seconds: int) -> None:
    assert parse_time(written) == seconds


@pytest.mark.parametrize("written", ["", "soon", "1:2:3:4", "-5", "0", "-1-0", "1e3", "9" * 30, "1d"])
def test_what_is_no_time_is_refused(written: str) -> None:
    with pytest.raises(InvalidRequest, match="--time"):
        parse_time(written)


@pytest.mark.parametrize(
    ("written", "quantity"),
    [("16G", "16Gi"), ("16g", "16Gi"), ("512", "512Mi"), ("512MB", "512Mi"), ("2T", "2Ti"),
     ("16Gi", "16Gi"), ("1.5G", "1.5Gi"), ("", ""), ("lots", "lots")],
)  # fmt: skip
def test_amounts_of_memory_are_those_of_slurm_and_of_kubernetes(written: str, quantity: str) -> None:
    assert parse_memory(written) == quantity


@pytest.mark.parametrize(
    ("written", "array"),
    [("1-20", Array(1, 1, 20, 20)), ("0-9:2", Array(0, 2, 5, 5)), ("1-100%5", Array(1, 1, 100, 5)),
     ("7", Array(7, 1, 1, 1)), ("3-4%9", Array(3, 1, 2, 2))],
)  # fmt: skip
def test_arrays(written: str, array: Array) -> None:
    assert parse_array(written) == array


@pytest.mark.parametrize("written", ["", "a-b", "5-1", "1-5:0", "1-5%0", "1-99999", "1,3"])
def test_what_is_no_array_is_refused(written: str) -> None:
    with pytest.raises(InvalidRequest, match="--array"):
        parse_array(written)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command": ()}, "there is no command"),
        ({"name": "Train_1"}, "--name Train_1: is no name of a job"),
        ({"name": "x" * 53}, "at most 52"),
        ({"name": "1st", "pods": 2}, "--name 1st: must begin with a letter"),
        ({"pods": 0}, "--nodes 0: is no number of pods"),
        ({"pods": 4, "min_pods": 5}, "--min-pods 5: must be from 1 to 4"),
        ({"cpus": "lots"}, "--cpus lots: is no quantity"),
        ({"cpus": "0"}, "--cpus 0: must be above 0"),
        ({"memory": "-1Gi"}, "--mem -1Gi: must be above 0"),
        ({"resources": {"a b": "1"}}, "--request a b: is no name of a resource"),
        ({"environment": {"1A": "x"}}, "--env 1A: is no name of a variable"),
        ({"array": Array(1, 1, 2, 2), "pods": 2}, "--array: its tasks run apart"),
        ({"gang": True, "time_limit_s": 60}, "--time: a gang outside the queues of quota"),
    ],
)
def test_a_request_that_cannot_be_says_which_option_and_what_would_do(
    changes: dict[str, object], message: str
) -> None:
    check(PLAIN)
    with pytest.raises(InvalidRequest) as refused:
        check(replace(PLAIN, **changes))
    assert message in str(refused.value)
