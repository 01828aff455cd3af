"""What queues deserve: hand-computed tables, properties, and the rounds of the specification as oracle."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.gang.deserved import QueueDemand, deserved, dominant_share, real_capability
from quorate.placement.resources import Amounts
from tests.gang.vectors_shares import read, run_deserved

VECTORS = yaml.load((Path(__file__).parent / "gang-cases.yaml").read_text(), Loader=yaml.CSafeLoader)["cases"]
UNNAMED: Amounts = {}


@pytest.mark.parametrize(
    "vector", [pytest.param(each, id=each["id"]) for each in VECTORS if each["kind"] == "deserved"]
)
def test_vector(vector: dict[str, Any]) -> None:
    assert run_deserved(vector["given"], vector["expect"], "compat") == []


@pytest.mark.parametrize(
    ("total", "queues", "want"),
    [
        pytest.param(
            {"cpu": 10},
            [
                {"name": "a", "guarantee": {"cpu": 4}, "request": {"cpu": 10}},
                {"name": "b", "request": {"cpu": 10}},
                {"name": "c", "request": {"cpu": 1}},
            ],
            {"a": {"cpu": "4833.33333m"}, "b": {"cpu": "4166.66667m"}, "c": {"cpu": 1}},
            id="a queue raised to its guarantee gets more from there on",
        ),
        pytest.param(
            {"cpu": 10},
            [
                {"name": "a", "guarantee": {"cpu": 8}, "request": {"cpu": 9}},
                {"name": "b", "guarantee": {"cpu": 7}, "request": {"cpu": 2}},
                {"name": "c", "request": {"cpu": 9}},
            ],
            {"a": {"cpu": 8}, "b": {"cpu": 7}, "c": {}},
            id="guarantees are granted beyond the cluster and leave nothing for other queues",
        ),
        pytest.param(
            {"cpu": 9, "nvidia.com/gpu": 8},
            [
                {
                    "name": "a",
                    "capability": {"cpu": 6, "nvidia.com/gpu": 0},
                    "request": {"cpu": 9, "nvidia.com/gpu": 8},
                },
                {"name": "b", "capability": {"cpu": 0}, "request": {"cpu": 1, "nvidia.com/gpu": 8}},
            ],
            {"a": {"cpu": 6}, "b": {"cpu": 1, "nvidia.com/gpu": 8}},
            id="a capability of 0 devices allows none, one of 0 cpu is no limit",
        ),
        pytest.param(
            {"cpu": 8, "pods": 30},
            [
                {"name": "a", "weight": 2, "request": {"cpu": 8, "pods": 8}},
                {"name": "b", "request": {"cpu": 8, "pods": 40}},
            ],
            {"a": {"cpu": "5333.33333m", "pods": 8}, "b": {"cpu": "2666.66667m", "pods": 22}},
            id="places for pods are divided like other resources",
        ),
        pytest.param(
            {"cpu": 8},
            [{"name": "a", "request": {"cpu": 2, "nvidia.com/gpu": 4}}, {"name": "b", "request": {"cpu": 9}}],
            {"a": {"cpu": 2}, "b": {"cpu": 6}},
            id="no queue deserves what the cluster lacks, and requesting it costs other queues nothing",
        ),
        pytest.param(
            {"cpu": 8},
            [{"name": "a", "guarantee": {"nvidia.com/gpu": 2}, "request": {"cpu": 8}}],
            {"a": {"cpu": 8, "nvidia.com/gpu": 2}},
            id="a guarantee of a resource that the cluster lacks is granted",
        ),
        pytest.param(
            {"cpu": 8},
            [
                {"name": "a", "weight": 0, "guarantee": {"cpu": 1}, "request": {"cpu": 8}},
                {"name": "b", "request": {"cpu": 5}},
            ],
            {"a": {"cpu": 1}, "b": {"cpu": 5}},
            id="a queue with weight 0 gets only its guarantee",
        ),
        pytest.param(
            {"cpu": 8},
            [{"name": "a", "weight": 0, "guarantee": {"cpu": 1}, "request": {"cpu": 8}}],
            {"a": {}},
            id="if all weights are 0 nothing is divided",
        ),
    ],
)
def test_deserved(total: dict[str, Any], queues: list[dict[str, Any]], want: dict[str, Any]) -> None:
    assert run_deserved({"total": total, "queues": queues}, {"deserved": want}, "compat") == []


@pytest.mark.parametrize(
    ("guaranteed", "own", "capability", "want"),
    [
        pytest.param("cpu=4", "", "", "cpu=6 gpu=8", id="guarantees of other queues are not available"),
        pytest.param("cpu=4", "cpu=4", "", "cpu=10 gpu=8", id="its own guarantee is available"),
        pytest.param("cpu=12", "cpu=5", "", "cpu=5 gpu=8", id="excessive guarantees leave zero, not less"),
        pytest.param(
            "cpu=4",
            "cpu=4",
            "cpu=7 gpu=0",
            "cpu=7 gpu=0",
            id="a capability limits the resources that it names",
        ),
        pytest.param(
            "tpu=2", "tpu=2", "", "cpu=10 gpu=8 tpu=2", id="a guarantee of a missing resource counts"
        ),
        pytest.param("", "", "tpu=2", "cpu=10 gpu=8", id="a capability grants nothing"),
    ],
)
def test_real_capability(guaranteed: str, own: str, capability: str, want: str) -> None:
    total = amounts("cpu=10 gpu=8")
    got = real_capability(total, amounts(guaranteed), amounts(own), amounts(capability))
    assert got == amounts(want)


def amounts(text: str) -> dict[str, int]:
    return {name: int(amount) for name, _, amount in (part.partition("=") for part in text.split())}


def test_the_dominant_share_is_the_largest_share_of_an_existing_resource() -> None:
    assert dominant_share({"cpu": 1, "gpu": 3, "tpu": 9}, {"cpu": 4, "gpu": Fraction(9, 2), "tpu": 0}) == (
        Fraction(2, 3)
    )
    assert dominant_share({"cpu": 1}, {}) == 0


def test_quantities_of_queues_are_parsed_like_those_of_nodes() -> None:
    assert read({"cpu": 1.5, "memory": "1Ki", "count/pods": 3}) == {"cpu": 1500, "memory": 1024}


# Properties.

RESOURCES = ("cpu", "memory", "pods")
some = st.integers(0, 40)
amounts_of_some = st.dictionaries(st.sampled_from(RESOURCES), some, max_size=3)
queues_claims = st.builds(
    QueueDemand,
    weight=st.integers(1, 5),
    request=amounts_of_some,
    real_capability=amounts_of_some,
    guarantee=st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6), max_size=2),
)
worlds = st.dictionaries(st.sampled_from("abcde"), queues_claims, max_size=5)
Deserved = Mapping[str, Mapping[str, Fraction]]


def rounds(total: Amounts, claims: Mapping[str, QueueDemand]) -> dict[str, dict[str, float]]:
    """Compute the rounds of the specification in floats until hardly anything changes."""
    names = {*total, *(name for claim in claims.values() for name in claim.guarantee)}
    remaining = {name: float(total.get(name, 0)) for name in names}
    result = {queue: dict.fromkeys(names, 0.0) for queue in claims}
    unmet = set(claims)
    for _ in range(5000):
        weights = sum(claims[queue].weight for queue in unmet)
        if not weights:
            break
        spent = dict.fromkeys(names, 0.0)
        for queue in list(unmet):
            claim, old = claims[queue], result[queue]
            new = {
                name: max(
                    min(
                        old[name] + remaining[name] * claim.weight / weights,
                        claim.real_capability.get(name, float("inf")),
                        claim.request.get(name, 0),
                    ),
                    claim.guarantee.get(name, 0),
                )
                for name in names
            }
            if new == old or all(new.get(name, 0) >= amount for name, amount in claim.request.items()):
                unmet.discard(queue)
            for name in names:
                spent[name] += new[name] - old[name]
            result[queue] = new
        if not any(spent.values()):
            break
        remaining = {name: max(0.0, remaining[name] - spent[name]) for name in names}
    return result


@given(total=amounts_of_some, claims=worlds)
def test_the_result_is_the_limit_of_the_rounds(total: Amounts, claims: dict[str, QueueDemand]) -> None:
    got, slow = deserved(total, claims), rounds(total, claims)
    for queue in claims:
        for name in RESOURCES:
            assert float(got[queue].get(name, 0)) == pytest.approx(slow[queue].get(name, 0), abs=1e-6)


@given(total=amounts_of_some, claims=worlds)
def test_only_guarantees_exceed_the_cluster(total: Amounts, claims: dict[str, QueueDemand]) -> None:
    got = deserved(total, claims)
    for name in RESOURCES:
        granted = sum(
            max(0, got[queue].get(name, 0) - claims[queue].guarantee.get(name, 0)) for queue in claims
        )
        assert granted <= total.get(name, 0)


@given(total=amounts_of_some, claims=worlds)
def test_beyond_its_guarantee_a_queue_deserves_at_most_its_request_and_capability(
    total: Amounts, claims: dict[str, QueueDemand]
) -> None:
    for queue, granted in deserved(total, claims).items():
        claim = claims[queue]
        for name, amount in granted.items():
            most = min(claim.request.get(name, 0), claim.real_capability.get(name, amount))
            assert amount <= max(most, claim.guarantee.get(name, 0))


@given(total=amounts_of_some, claims=worlds)
def test_nothing_is_left_while_a_queue_can_take_it(total: Amounts, claims: dict[str, QueueDemand]) -> None:
    got = deserved(total, claims)
    for name in RESOURCES:
        if sum(got[queue].get(name, 0) for queue in claims) < total.get(name, 0):
            for queue, claim in claims.items():
                wanted = claim.request.get(name, 0)
                assert got[queue].get(name, 0) >= min(wanted, claim.real_capability.get(name, wanted))


@given(total=amounts_of_some, claims=worlds, order=st.randoms(use_true_random=False))
def test_the_order_of_queues_does_not_matter(
    total: Amounts, claims: dict[str, QueueDemand], order: Any
) -> None:
    names = list(claims)
    order.shuffle(names)
    assert deserved(total, {name: claims[name] for name in names}) == deserved(total, claims)


@given(total=amounts_of_some, claims=worlds.filter(bool), more=st.integers(1, 5))
def test_more_weight_never_decreases_what_a_queue_deserves(
    total: Amounts, claims: dict[str, QueueDemand], more: int
) -> None:
    queue = min(claims)
    claim = claims[queue]
    heavier = QueueDemand(claim.weight + more, claim.request, claim.real_capability, claim.guarantee)
    before, after = deserved(total, claims)[queue], deserved(total, {**claims, queue: heavier})[queue]
    assert all(after.get(name, 0) >= amount for name, amount in before.items())


@given(total=amounts_of_some, claims=worlds)
def test_resources_are_divided_independently(total: Amounts, claims: dict[str, QueueDemand]) -> None:
    got = deserved(total, claims)
    for name in RESOURCES:
        alone = deserved(
            {name: total[name]} if name in total else {}, {q: only(c, name) for q, c in claims.items()}
        )
        assert {q: amounts.get(name, 0) for q, amounts in got.items()} == {
            q: amounts.get(name, 0) for q, amounts in alone.items()
        }


def only(claim: QueueDemand, name: str) -> QueueDemand:
    def of(amounts: Amounts) -> Amounts:
        return {name: amounts[name]} if name in amounts else {}

    return QueueDemand(claim.weight, of(claim.request), of(claim.real_capability), of(claim.guarantee))
