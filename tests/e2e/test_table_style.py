"""All tables of the command line have one unit in a column, and times such as ``2h54m``."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.kube.resources import TOPOLOGIES
from quorate.local.nodes import NodePool
from tests.cli.test_json_output import BY_NAME
from tests.e2e.verbs import CommandLine, story_runner
from tests.e2e.world import NAMESPACE, World

pytestmark = pytest.mark.slow

TITLES = re.compile(r" *[A-Z][A-Z0-9 /.-]*")
AMOUNT = re.compile(r"\d+(?:\.\d+)?(m|Ki|Mi|Gi|Ti|k|M|G|)")
TIME = re.compile(r"(\d+[ydhms]){1,2}|<unknown>|")
TIMES = ("AGE", "TIME", "EXEC TIME", "SINCE")
LISTS = (
    *sorted(name for name in BY_NAME if name.endswith(" list")),
    *(f"{name} -A" for name in ("queue list lq", "podgroup list", "vcjob list", "workload list", "status")),
)


def tables(text: str) -> Iterator[list[dict[str, str]]]:
    """Yield the rows of each table of an output, by title; two spaces separate titles."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if not line.endswith(":")]
        if len(lines) < 2 or not TITLES.fullmatch(lines[0].rstrip()):
            continue
        starts = [match.start() for match in re.finditer(r"(?<!\S)(?<! \S)\S", lines[0])]
        starts = [start for start in starts if start == 0 or lines[0][max(0, start - 2) : start].isspace()]
        ends = [*starts[1:], None]
        yield [
            {lines[0][a:b].strip(): line[a:b].strip() for a, b in zip(starts, ends, strict=True)}
            for line in lines[1:]
        ]


def units_by_column(table: list[dict[str, str]]) -> dict[tuple[str, str], set[str]]:
    """Return the units in each column; where rows are of a RESOURCE, in all columns of a resource."""
    units = defaultdict[tuple[str, str], set[str]](set)
    for row in table:
        resource = row.get("RESOURCE", "")
        for title, cell in row.items():
            for amount in cell.split("/"):
                found = AMOUNT.fullmatch(amount)
                if found is not None and title not in TIMES:
                    units["" if resource else title, resource].add(found[1])
    return units


def test_the_units_of_a_table_are_found() -> None:
    quota = "QUOTA   MEMORY\na       16Gi\nb       512Mi\n"
    first, second = tables(f"{quota}\nUse:\n  RESOURCE   USED   FREE\n  cpu        500m   2\n")
    assert units_by_column(first) == {("MEMORY", ""): {"Gi", "Mi"}}
    assert units_by_column(second) == {("", "cpu"): {"m", ""}}


def test_every_list_has_one_unit_in_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.cluster_queue("2500m", name="small")
        await world.create(TOPOLOGIES, "hosts", spec={"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
        await world.flavor("placed", topologyName="hosts", nodeLabels={"kubernetes.io/os": "linux"})
        await world.job("train", cpu="750m", pods=2, runs="1h")
        await world.until_admitted("train")
        await world.job("evaluate", cpu="3", pods=2)
        describes = (
            "queue describe cq/research cq/small", f"queue describe lq/queue -n {NAMESPACE}",
            f"workload describe -n {NAMESPACE} job/train",
            "topology describe hosts --resource memory -o wide",
        )  # fmt: skip
        shown = set[str]()
        for words in (*LISTS, *(f"{name} -o wide" for name in LISTS), *describes):
            for table in tables(await command.output_of(*words.split())):
                for (title, resource), units in units_by_column(table).items():
                    assert len(units) <= 1, (words, title, resource, table)
                    shown |= units
                times = {row[title] for row in table for title in TIMES if title in row}
                assert all(map(TIME.fullmatch, times)), (words, times)
        assert shown >= {"m", "Gi", ""}, "all are shown"

    fleet = NodePool(count=2, cpu="4", memory="1536Mi")
    story_runner(tmp_path, monkeypatch, fleet)(story)
