"""What the first page shows: the state of the storage, and what needs attention."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.cluster.lake import TieringState
from headwater.console.facts.cursors import CursorLine, cursor_lines
from headwater.console.facts.growth import Growth
from headwater.console.facts.tables import TableLine, names_of, table_lines
from headwater.console.feed import MetricsFeed
from headwater.errors import AccessError, UnsupportedError
from headwater.runtime.clock import Clock
from headwater.wire import fluss_pb2 as pb

MEASURED_MAX = 100
"""Tables whose growth the first page follows, where the server tells no metrics."""
CURSORS_SHOWN_MAX = 5
ATTENTION_MAX = 20
_LIGHTS = {0: "green", 1: "yellow", 2: "red"}
T = TypeVar("T")
_TABLE = re.compile(r"\bof ([\w$-]+\.[\w$-]+)")


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs attention, and where to look."""

    is_severe: bool
    text: str
    table: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """What a server says of its buckets."""

    light: str
    replicas: int
    in_sync: int
    leaders: int
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The storage at a glance."""

    databases: int
    tables: int
    health: ClusterHealth | None
    is_well: bool | None
    concerns: tuple[Concern, ...]
    values: Mapping[str, float | None]
    rows_per_s: float | None
    busiest: tuple[TableLine, ...]
    cursors: tuple[CursorLine, ...]
    slowest_tiering: tuple[TieringState, ...]
    has_metrics: bool
    metrics_fault: str
    not_told: tuple[str, ...]
    """What this storage does not offer."""


def overview(
    client: Client, *, feed: MetricsFeed, growth: Growth, caller: str, clock: Clock
) -> Overview:
    """Collect everything that the caller may see."""
    names = names_of(client)
    paths = [(database, table) for database in sorted(names) for table in names[database]]
    visible = {f"{database}.{table}" for database, table in paths}
    missing: list[str] = []
    health = _told(lambda: cluster_health(client), "the health of buckets", missing)
    states = _told(lambda: tiering_states(client), "rounds of tiering", missing) or ()
    states = tuple(each for each in states if str(each.path) in visible)
    cursors = _told(lambda: cursor_lines(client), "cursors", missing) or ()
    lines = measured(client, paths, growth=growth, caller=caller, clock=clock)
    rates = {line.path: line.rows_per_s for line in lines}
    known = [rate for rate in rates.values() if rate is not None]
    busiest = sorted(lines, key=lambda line: (-(line.rows_per_s or 0), -(line.written or 0)))
    concerns = (
        *_concerns_of_health(feed.unwell or (), visible),
        *_concerns_of_tiering(states),
        *(Concern(True, f"{line.path}: {line.fault}") for line in lines if line.fault),
    )
    return Overview(
        databases=len(names),
        tables=len(paths),
        health=health,
        is_well=_wellness(feed, health),
        concerns=concerns[:ATTENTION_MAX],
        values=feed.newest,
        rows_per_s=sum(known) if known else None,
        busiest=tuple(busiest[:CURSORS_SHOWN_MAX]),
        cursors=tuple(sorted(cursors, key=lambda each: -(each.lag_rows or 0))[:CURSORS_SHOWN_MAX]),
        slowest_tiering=states,
        has_metrics=feed.is_offered,
        metrics_fault=feed.fault,
        not_told=tuple(missing),
    )


def measured(
    client: Client,
    paths: list[tuple[str, str]],
    *,
    growth: Growth,
    caller: str,
    clock: Clock,
) -> list[TableLine]:
    """Measure how fast the first tables grow, and note it for the chart."""
    found = []
    for line in table_lines(client, paths[:MEASURED_MAX], sizes={}):
        rate = None
        if line.written is not None:
            rate = growth.rate(caller, line.path, line.written, now_s=clock.monotonic())
        found.append(replace(line, rows_per_s=rate))
    growth.note(caller, {each.path: each.rows_per_s for each in found}, now_ms=clock.now_ms())
    return found


def _told(ask: Callable[[], T], what: str, missing: list[str]) -> T | None:
    """Ask for something that not every storage offers, and not everybody may see."""
    try:
        return ask()
    except (UnsupportedError, AccessError) as fault:
        missing.append(f"{what}: {fault.message}")
    return None


def cluster_health(client: Client) -> ClusterHealth:
    """Ask the server for the health of its buckets."""

    async def ask(awaiting: AsyncClient) -> pb.GetClusterHealthResponse:
        return await awaiting.cluster.ask(
            pb.GetClusterHealthRequest(), pb.GetClusterHealthResponse, coordinator=True
        )

    answer = client.run(ask)
    return ClusterHealth(
        light=_LIGHTS.get(answer.status, "unknown"),
        replicas=answer.num_replicas,
        in_sync=answer.in_sync_replicas,
        leaders=answer.num_leader_replicas,
        active=answer.active_leader_replicas,
    )


def tiering_states(client: Client) -> tuple[TieringState, ...]:
    """Ask how the rounds of all tables with a lake went, those in trouble first."""
    states = client.lake.heartbeat(list_states=True).states
    return tuple(sorted(states, key=lambda each: (-each.failures, each.due_in_ms, str(each.path))))


def _wellness(feed: MetricsFeed, health: ClusterHealth | None) -> bool | None:
    if feed.unwell is not None:
        return not feed.unwell
    return None if health is None else health.light == "green"


def _concerns_of_health(reasons: Iterable[str], visible: set[str]) -> Iterable[Concern]:
    """Turn reasons into concerns, without those that name tables which the caller may not see."""
    for reason in reasons:
        named = _TABLE.findall(reason)
        if not all(each in visible for each in named):
            continue
        table = named[0].split(".", 1) if named else None
        yield Concern(True, reason, None if table is None else (table[0], table[1]))


def _concerns_of_tiering(states: Iterable[TieringState]) -> Iterable[Concern]:
    for each in states:
        if each.failures:
            text = f"Tiering of {each.path} failed {each.failures} times in a row"
            why = f": {each.last_failure}" if each.last_failure else "."
            yield Concern(True, text + why, (each.path.database, each.path.table))
        elif each.due_in_ms < -2 * max(each.freshness_ms, 1):
            text = f"{each.path} waits for a tiering service since {-each.due_in_ms // 1000} s."
            yield Concern(False, text, (each.path.database, each.path.table))
