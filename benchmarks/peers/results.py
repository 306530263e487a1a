"""What the figures say: one line for each thing measured, one column for each peer."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.peers.measuring import Measured
from benchmarks.peers.starting import Started
from benchmarks.peers.work import RATES, Work

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Value:
    """Hold the median of something, and the least and the most of all rounds."""

    middle: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one thing measured, of all peers that offer it."""

    what: str
    unit: str
    is_more_better: bool
    values: dict[str, Value] = field(default_factory=dict)


def lines_of(
    measured: Sequence[Measured],
    started: dict[str, Started],
    peaks: dict[str, int],
    peers: Sequence[str],
) -> list[Line]:
    """Return all lines, in the order in which they are told."""
    lines = [line for work in Work for line in _of_work(work, measured, peers)]
    start = Line("start to the first row", "s", is_more_better=False)
    rest = Line("memory at rest", "MiB", is_more_better=False)
    load = Line("memory under load, most", "MiB", is_more_better=False)
    for name, each in started.items():
        start.values[name] = Value(each.median_s, min(each.seconds), max(each.seconds))
        rest.values[name] = _single(each.rest_bytes / MIB)
        load.values[name] = _single(peaks[name] / MIB)
    disk = Line("disk for each row", "bytes", is_more_better=False)
    for name in peers:
        found = [each.disk_bytes / each.rows for each in _of(measured, name, Work.APPEND)]
        if found:
            disk.values[name] = _spread(found)
    return [*lines, start, rest, load, disk]


def _of_work(work: Work, measured: Sequence[Measured], peers: Sequence[str]) -> list[Line]:
    if work in RATES:
        rate = Line(work, "thousand rows/s", is_more_better=True)
        cpu = Line(f"{work}: processor, client + server", "µs per row", is_more_better=False)
        for name in peers:
            if found := _of(measured, name, work):
                rate.values[name] = _spread([each.rows / each.wall_s / 1e3 for each in found])
                spent = [each.client_cpu_s + each.server_cpu_s for each in found]
                cpu.values[name] = _spread(
                    [1e6 * cost / each.rows for cost, each in zip(spent, found, strict=True)]
                )
        return [rate, cpu]
    lines = []
    for percent in (50, 99):
        line = Line(f"{work}, p{percent}", "µs", is_more_better=False)
        for name in peers:
            if found := _of(measured, name, work):
                line.values[name] = _spread(
                    [1e6 * float(np.percentile(each.times_s, percent)) for each in found]
                )
        lines.append(line)
    return lines


def _of(measured: Iterable[Measured], peer: str, work: Work) -> list[Measured]:
    return [each for each in measured if each.peer == peer and each.work == work]


def _spread(values: Sequence[float]) -> Value:
    return Value(statistics.median(values), min(values), max(values))


def _single(value: float) -> Value:
    return Value(value, value, value)


def told(value: float) -> str:
    """Write a figure with three digits that say something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def markdown(lines: Sequence[Line], peers: Sequence[str]) -> str:
    """Return the table: medians, and below them the least and the most of all rounds."""
    head = ["what", "unit", *peers]
    rows = [[line.what, line.unit, *(_cell(line, name) for name in peers)] for line in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def short_markdown(lines: Sequence[Line], servers: Sequence[str]) -> str:
    """Return the medians of each server with its first client, without 99th percentiles."""
    shown = [line for line in lines if "p99" not in line.what and "processor" not in line.what]
    head = ["what", *servers]
    rows = [
        [
            f"{line.what.removesuffix(', p50')}, {line.unit}",
            *(_middle(line, name, servers) if name in line.values else "" for name in servers),
        ]
        for line in shown
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def _cell(line: Line, name: str) -> str:
    if (value := line.values.get(name)) is None:
        return ""
    middle = _middle(line, name, list(line.values))
    if value.least == value.most:
        return middle
    return f"{middle} ({told(value.least)} to {told(value.most)})"


def _middle(line: Line, name: str, among: Sequence[str]) -> str:
    middle = line.values[name].middle
    best = max if line.is_more_better else min
    is_best = middle == best(line.values[each].middle for each in among if each in line.values)
    return f"**{told(middle)}**" if is_best else told(middle)
