"""Series from a Prometheus that scrapes the controllers, instead of the samples of this dashboard."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

from quorate.api import codec
from quorate.api.meta import at_epoch
from quorate.dashboard.history.recorder import ADMITTED_COUNT, PENDING_COUNT, WAITS
from quorate.dashboard.history.series import RANGES, Range, first_interval, in_order
from quorate.dashboard.schema import Sample, Series

TIMEOUT_S: Final = 10.0
_MAX_BYTES: Final = 2**24  # of an answer
_LONGEST: Final = 200  # of a problem, in messages


class SourceFailed(Exception):
    """Prometheus did not answer; the text says why."""


class _Query(NamedTuple):
    name: str  # of the series; with braces for the labels of each result
    text: str  # in PromQL


class _Result(msgspec.Struct, frozen=True):
    metric: dict[str, str] = {}
    values: tuple[tuple[float, str], ...] = ()


class _Data(msgspec.Struct, frozen=True):
    result: tuple[_Result, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data = _Data()
    error: str = ""


class PrometheusSource:
    """Reads ranges over HTTP from ``address``, such as http://prometheus:9090.

    Several replicas of the controllers export the same values: of each series the largest counts.
    """

    def __init__(self, address: str, prefix: str = "kueue_") -> None:
        self.address = address.rstrip("/")
        self._prefix = prefix

    async def series(self, cluster_queue: str, range_: Range, now: float) -> Series:
        """Return the series of a cluster queue, or of the overview if that is empty.

        Raises ``SourceFailed``.
        """
        interval_s = RANGES[range_][1]
        queries = self._of_queue(cluster_queue) if cluster_queue else self._of_overview(interval_s)
        window = (first_interval(range_, now), int(now), interval_s)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            found = await asyncio.gather(*(self._read(session, each, window) for each in queries))
        by_name = {name: values for part in found for name, values in part.items()}
        names = in_order(by_name)
        moments = sorted({moment for values in by_name.values() for moment in values})
        return Series(
            interval_s=interval_s,
            names=names,
            samples=tuple(
                Sample(at=at_epoch(moment), values=tuple(by_name[name].get(moment) for name in names))
                for moment in moments
            ),
            source=self.address,
        )

    def _of_queue(self, name: str) -> list[_Query]:
        only = f"{{cluster_queue={json.dumps(name)}}}"
        largest = "max by (cluster_queue, flavor, resource, status)"
        by_flavor = f"sum by (flavor, resource) ({largest} ({self._prefix}%s{only}))"
        return [
            _Query(PENDING_COUNT, f"sum({largest} ({self._prefix}pending_workloads{only}))"),
            _Query(ADMITTED_COUNT, f"sum({largest} ({self._prefix}admitted_active_workloads{only}))"),
            _Query("{flavor}/{resource} used", by_flavor % "cluster_queue_resource_reservation"),
            _Query("{flavor}/{resource} nominal", by_flavor % "cluster_queue_nominal_quota"),
        ]

    def _of_overview(self, interval_s: int) -> list[_Query]:
        largest = "max by (cluster_queue, flavor, resource, status)"
        by_resource = f"sum by (resource) ({largest} ({self._prefix}%s))"
        used = by_resource % "cluster_queue_resource_reservation"
        nominal = by_resource % "cluster_queue_nominal_quota"
        window_s = max(interval_s, 60)  # a rate needs several scrapes
        rate = f"sum by (le) (rate({self._prefix}admission_wait_time_seconds_bucket[{window_s}s]))"
        return [
            _Query(PENDING_COUNT, f"sum({largest} ({self._prefix}pending_workloads))"),
            _Query(ADMITTED_COUNT, f"sum({largest} ({self._prefix}admitted_active_workloads))"),
            _Query("{resource} used share", f"{used} / ({nominal} > 0)"),
            *(_Query(name, f"histogram_quantile({share:g}, {rate})") for name, share in WAITS.items()),
        ]

    async def _read(
        self, session: aiohttp.ClientSession, query: _Query, window: tuple[int, int, int]
    ) -> dict[str, dict[int, float]]:
        """Return the values of each result by moment."""
        start, end, step = window
        parameters: Mapping[str, Any] = {"query": query.text, "start": start, "end": end, "step": step}
        try:
            async with session.post(f"{self.address}/api/v1/query_range", data=parameters) as response:
                body = await response.content.read(_MAX_BYTES)
            answer = codec.decode(_Answer, body)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            problem = f"{self.address}: {type(error).__name__}: {error}"
            raise SourceFailed(problem[:_LONGEST]) from error
        if answer.status != "success":
            raise SourceFailed(f"{self.address}: {answer.error or answer.status}"[:_LONGEST])
        return {
            query.name.format_map(_Labels(result.metric)): {
                int(moment): number for moment, text in result.values if (number := _number(text)) is not None
            }
            for result in answer.data.result
        }


class _Labels(dict[str, str]):
    """The labels of a result; a label that it does not have is empty."""

    def __missing__(self, label: str) -> str:
        return ""


def _number(text: str) -> float | None:
    """Return a value of Prometheus; None if it is not finite, as the quantile of nothing."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number - number == 0 else None
