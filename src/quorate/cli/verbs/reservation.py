"""``quorate reservation``: list, create, describe and delete Reservations."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from quorate.api import codec
from quorate.api.meta import Key, at_epoch, find_condition, is_true
from quorate.api.quorate import ACTIVE, CONFLICTING, ENDED, Reservation, ReservationSpec
from quorate.api.quorate.occurrences import occurrences, spec_problem
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.cli.lazy_commands import command_group
from quorate.cli.verbs import options as o
from quorate.cli.verbs import printing as p
from quorate.cli.verbs.cluster_commands import on_cluster
from quorate.cli.verbs.listing import list_objects, print_whole
from quorate.cli.verbs.quota_options import amounts, pairs
from quorate.cli.verbs.writing import Results, create_object, delete_object
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import format_resources
from quorate.kube.clock import WallClock
from quorate.kube.resources import RESERVATIONS

_SHOWN_WINDOWS = 5

reservation = command_group("Reservations, quota or nodes kept for a time: list, create, describe, delete.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the reservation.")]


@reservation.command("list")
@on_cluster
async def list_(
    connection: Connection,
    selector: o.LabelSelector = "",
    field_selector: o.FieldSelector = "",
    output: o.Format = o.Output.TABLE,
) -> None:
    """List reservations with the window that is active or comes next.

    [b]Example:[/b] quorate reservation list
    """
    now = WallClock().now()
    columns: tuple[p.Column[Reservation], ...] = (
        p.Column("NAME", lambda listed: listed.metadata.name),
        p.Column("PURPOSE", lambda listed: listed.spec.purpose),
        p.Column("STATE", _state),
        p.Column("START", lambda listed: _moment(listed.status.start)),
        p.Column("END", lambda listed: _moment(listed.status.end)),
        p.Column("RESERVED", _reserved),
        p.Column("AGE", lambda listed: p.age(listed.metadata.creation_timestamp, now)),
        p.Column("OWNERS", _owners, wide=True),
        p.Column("RECURRENCE", lambda listed: listed.spec.recurrence, wide=True),
    )
    listed = await list_objects(connection, RESERVATIONS, output, selector, field_selector)
    p.print_objects(columns, listed, output)


@reservation.command()
def create(
    name: Name,
    start: Annotated[
        str, typer.Option(metavar="TIME", help="start: of the first window, 2026-12-05T22:00:00Z, or now.")
    ] = "now",
    end: Annotated[str, typer.Option(metavar="TIME", help="end: of the first window.")] = "",
    duration: Annotated[
        str, typer.Option(metavar="DURATION", help="durationSeconds: of each window, as 2h or 1h30m.")
    ] = "",
    recurrence: Annotated[
        str,
        typer.Option(metavar="RRULE", help="recurrence: a rule of RFC 5545, as FREQ=WEEKLY;BYDAY=SA. UTC."),
    ] = "",
    amounts_: Annotated[
        list[str] | None,
        typer.Option("--amounts", metavar="FLAVOR:RESOURCE=AMOUNT;...", help="amounts: quota of flavors."),
    ] = None,
    nodes: Annotated[
        list[str] | None, typer.Option(metavar="NAME,...", help="nodes.names: nodes by name.")
    ] = None,
    node_selector: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,...", help="nodes.selector: nodes with these labels."),
    ] = None,
    node_count: Annotated[
        int | None, typer.Option(metavar="COUNT", help="nodes.count: how many of the nodes.")
    ] = None,
    cluster_queues: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="owners.clusterQueues: queues that use what is reserved."),
    ] = None,
    local_queues: Annotated[
        list[str] | None, typer.Option(metavar="NAMESPACE/NAME,...", help="owners.localQueues, likewise.")
    ] = None,
    namespaces: Annotated[
        list[str] | None, typer.Option(metavar="NAME,...", help="owners.namespaces, likewise.")
    ] = None,
    maintenance: Annotated[
        bool, typer.Option("--maintenance", help="purpose: Maintenance; no workload uses what is reserved.")
    ] = False,
    evict: Annotated[
        bool, typer.Option("--evict", help="atStart: Evict; evict what still runs at the start of a window.")
    ] = False,
    notice: Annotated[
        str, typer.Option(metavar="DURATION", help="noticeSeconds: from the start to the evictions, as 10m.")
    ] = "",
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Create a reservation of quota or nodes.

    [b]Example:[/b] quorate reservation create training --start 2026-12-05T22:00:00Z --duration 8h
    --amounts "gpu:cpu=64;nvidia.com/gpu=8" --cluster-queues research
    """
    names, labels = _items(nodes), pairs("--node-selector", node_selector or [])
    chosen: dict[str, Any] = {"names": names, "selector": {"matchLabels": labels} if labels else {}}
    owners = {
        "clusterQueues": _items(cluster_queues),
        "localQueues": [_local_queue(written) for written in _items(local_queues)],
        "namespaces": _items(namespaces),
    }
    spec = _given({
        "purpose": "Maintenance" if maintenance else "",
        "amounts": [
            {"flavor": flavor, "resources": {name: str(amount) for name, amount in resources.items()}}
            for flavor, resources in amounts("--amounts", amounts_ or []).items()
        ],
        "nodes": _given({**chosen, "count": node_count}),
        "owners": _given(owners),
        "start": _time("--start", start),
        "end": _time("--end", end) if end else "",
        "durationSeconds": _seconds("--duration", duration),
        "recurrence": recurrence.removeprefix("RRULE:"),
        "atStart": "Evict" if evict else "",
        "noticeSeconds": _seconds("--notice", notice),
    })  # fmt: skip
    problem = _problem(spec)
    if problem is not None:
        raise UsageError(f"reservation {name}: {problem}")

    async def write(connection: Connection) -> None:
        with Results(output, dry_run) as results:
            await create_object(connection, RESERVATIONS, name, spec, results)

    with_cluster(ClusterOptions(kubeconfig, context), write)


@reservation.command()
@on_cluster
async def describe(connection: Connection, name: Name, output: o.Format = o.Output.TABLE) -> None:
    """Show a reservation with its next windows and its conditions.

    [b]Example:[/b] quorate reservation describe training
    """
    now = WallClock().now()
    key = Key("", name)
    if p.is_structured(output):
        await print_whole(connection, [(RESERVATIONS, key)], output)
    else:
        p.print_sections(_sections(await connection.client.get(RESERVATIONS, key), now))


@reservation.command()
@on_cluster
async def delete(
    connection: Connection,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of reservations.")],
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Delete reservations; what they reserved is free again.

    [b]Example:[/b] quorate reservation delete training
    """
    with Results(output, dry_run) as results:
        for name in names:
            await delete_object(connection, RESERVATIONS, Key("", name), results)


def _problem(spec: Mapping[str, Any]) -> str | None:
    """Return why a Reservation would have no windows; None: it has."""
    try:
        decoded = codec.convert(ReservationSpec, spec)
    except msgspec.ValidationError as error:
        return f"spec: {error}"
    return spec_problem(decoded)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with a value; 0 is one, which the API server refuses where it makes no sense."""
    return {field: value for field, value in fields.items() if value not in (None, "", [], {})}


def _items(written: list[str] | None) -> list[str]:
    return [part.strip() for text in written or () for part in text.split(",") if part.strip()]


def _local_queue(written: str) -> dict[str, str]:
    namespace, slash, name = written.partition("/")
    if not (namespace and slash and name):
        raise UsageError(f"--local-queues: {written!r} is no local queue (write NAMESPACE/NAME)")
    return {"namespace": namespace, "name": name}


def _time(option: str, written: str) -> str:
    """Return an RFC 3339 time; a time without a zone is in UTC."""
    try:
        moment = at_epoch(WallClock().now()) if written == "now" else datetime.fromisoformat(written)
        return _moment(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{option}: {written!r} is no time (write 2026-12-05T22:00:00Z)") from error


def _seconds(option: str, written: str) -> int | None:
    if not written:
        return None
    try:
        return int(parse_duration(written))
    except InvalidDuration as error:
        raise UsageError(f"{option}: {written!r} is no duration (write 2h or 1h30m)") from error


def _state(listed: Reservation) -> str:
    """Return the state in one word, and whether there is a conflict."""
    conditions = listed.status.conditions
    scheduled = find_condition(conditions, "Scheduled")
    if is_true(conditions, ENDED):
        return "Ended"
    if scheduled is None:
        return "Unknown"
    if scheduled.status != "True":
        return scheduled.reason
    state = "Active" if is_true(conditions, ACTIVE) else "Scheduled"
    return f"{state}, Conflicting" if is_true(conditions, CONFLICTING) else state


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _reserved(listed: Reservation) -> str:
    parts = [f"{part.flavor}: {format_resources(part.resources)}" for part in listed.spec.amounts]
    nodes = listed.spec.nodes
    if nodes is not None:
        chosen = ",".join(nodes.names) if nodes.names else ""
        if nodes.selector is not None:
            chosen = ",".join(f"{key}={value}" for key, value in nodes.selector.match_labels.items())
        count = "" if nodes.count is None else f"{nodes.count} of "
        parts.append(f"nodes: {count}{chosen or 'all'}")
    return "; ".join(parts)


def _owners(listed: Reservation) -> str:
    owners = listed.spec.owners
    return ", ".join((
        *(f"clusterqueue/{name}" for name in owners.cluster_queues),
        *(f"localqueue {key}" for key in owners.local_queues),
        *(f"namespace/{name}" for name in owners.namespaces),
    ))  # fmt: skip


def _sections(described: Reservation, now: float) -> tuple[p.Section, ...]:
    spec = described.spec
    at_start = str(spec.at_start)
    if spec.notice_seconds:
        at_start = f"{at_start} after a notice of {spec.notice_seconds} s"
    windows = occurrences(spec, now)[:_SHOWN_WINDOWS]
    return (
        p.Fields((
            ("Name", described.metadata.name),
            ("Purpose", spec.purpose),
            ("State", _state(described)),
            ("Reserved", _reserved(described)),
            ("Owners", _owners(described)),
            ("At start", at_start),
            ("Recurrence", spec.recurrence),
            ("Age", p.age(described.metadata.creation_timestamp, now)),
        )),
        p.TableSection(
            "Windows",
            ("START", "END"),
            tuple(
                (_moment(at_epoch(window.opens)), _moment(at_epoch(window.closes))) for window in windows
            ),
        ),
        p.conditions_section(described.status.conditions, now),
    )  # fmt: skip
