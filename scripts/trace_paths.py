"""Trace which files and calls of ours each path through the code takes.

It counts calls instead of measuring time, so the result does not depend on how busy the machine is.
Threads are profiled from their start, because an embedded storage works on several of them.
Background work may add calls and files, so every path runs repeatedly: the run with the fewest
calls counts, and of its files those that every run passes. `make docs` writes the result into
ARCHITECTURE.md, and tests/test_paths.py holds it to budgets.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import headwater
from headwater import Client, Table
from headwater.aio import AsyncClient
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner

PACKAGE = Path(headwater.__file__).parent
COLUMNS = {"id": "BIGINT", "name": "STRING", "v": "DOUBLE"}
ROWS = 1_000
KEYS = list(range(100))
WARM_UPS = 20
RUNS = 10
HEAVY_RUNS = 5  # and as many to warm up, for paths that are longer than one row
TIERING_RUNS = 3
# What a run leaves behind, such as a fetch that waits for rows, is done before the next begins.
SETTLED_S = 0.02
WITH_LAKE = {"table.datalake.enabled": True}


@dataclass(frozen=True, slots=True)
class Trace:
    """What one path passes: our files in the order of first entry, and the number of our calls."""

    calls: int
    files: tuple[str, ...]


class Recorder:
    """Note calls of our functions, in this thread and in those that began after `recording`."""

    def __init__(self) -> None:
        self._is_on = False
        self._calls = 0
        self._files: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if self._is_on and event == "call":
            name = frame.f_code.co_filename
            if name.startswith(str(PACKAGE)):
                self._calls += 1
                self._files.setdefault(name)

    def trace(self, action: Callable[[], object]) -> Trace:
        """Return what one run of an action passes."""
        self._calls, self._files = 0, {}
        self._is_on = True
        sys.setprofile(self)
        try:
            action()
        finally:
            sys.setprofile(None)
            self._is_on = False
        files = (Path(file).relative_to(PACKAGE).with_suffix("") for file in self._files)
        return Trace(self._calls, tuple(map(str, files)))

    def least(
        self,
        action: Callable[[int], object],
        *,
        warm_ups: int,
        runs: int,
        before: Callable[[int], object] = int,
    ) -> Trace:
        """Return the least that runs of an action pass; each is given a number that grows."""
        traces = []
        for number in range(warm_ups + runs):
            before(number)
            time.sleep(SETTLED_S if number >= warm_ups else 0)
            traces.append(self.trace(lambda number=number: action(number)))
        traces = traces[warm_ups:]
        least = min(traces, key=lambda each: (each.calls, len(each.files), each.files))
        always = set(least.files).intersection(*(each.files for each in traces))
        return Trace(least.calls, tuple(file for file in least.files if file in always))


@contextmanager
def recording() -> Iterator[Recorder]:
    """Profile the threads that begin in the block."""
    recorder = Recorder()
    threading.setprofile(recorder)
    try:
        yield recorder
    finally:
        threading.setprofile(None)


def traced_paths() -> dict[str, Trace]:
    """Return what each path passes, by the name of the path."""
    with (
        tempfile.TemporaryDirectory() as directory,
        recording() as recorder,
        headwater.open(f"{directory}/data", listen=True) as hw,
    ):
        keyed = hw.create_table("keyed", COLUMNS, primary_key="id")
        log = hw.create_table("log", COLUMNS)
        keyed.upsert(_rows())
        found = _one_row(recorder, keyed, log) | _many_rows(recorder, hw, keyed)
        with headwater.connect(hw.address or "") as other:
            served = _one_row(recorder, other.table("keyed"), other.table("log"))
        found |= {f"{name}, served": trace for name, trace in served.items()}
        return found | _lake(recorder, hw)


def _one_row(recorder: Recorder, keyed: Table, log: Table) -> dict[str, Trace]:
    actions: dict[str, Callable[[int], object]] = {
        "get": lambda number: keyed.get({"id": number}),
        "append": lambda number: log.append(_row(number)),
        "upsert": lambda number: keyed.upsert(_row(number)),
    }
    return {
        name: recorder.least(action, warm_ups=WARM_UPS, runs=RUNS)
        for name, action in actions.items()
    }


def _many_rows(recorder: Recorder, hw: Client, keyed: Table) -> dict[str, Trace]:
    log = hw.create_table("scanned", COLUMNS)
    log.append(_rows())
    found = {
        "lookup of 100 keys": _heavy(recorder, lambda _: keyed.lookup(KEYS)),
        "scan of a log": _heavy(recorder, lambda _: log.scan().to_arrow()),
        "scan by key": _heavy(recorder, lambda _: keyed.scan().to_arrow()),
    }
    with log.tail("latest") as tail:

        def follow(number: int) -> None:
            log.append(_row(number))
            tail.poll(timeout_s=5.0)

        found["append and poll of a tail"] = _heavy(recorder, follow)
    return found


def _lake(recorder: Recorder, hw: Client) -> dict[str, Trace]:
    log = hw.create_table("lake_log", COLUMNS, options=WITH_LAKE)
    keyed = hw.create_table("lake_keyed", COLUMNS, primary_key="id", options=WITH_LAKE)
    log.append(_rows())
    keyed.upsert(_rows())

    hw.run(_tier_once)
    log.append(_row(0))
    keyed.upsert(_row(0))
    return {
        "union read": _heavy(recorder, lambda _: log.scan().to_arrow()),
        "union read by key": _heavy(recorder, lambda _: keyed.scan().to_arrow()),
        "tiering round": recorder.least(
            lambda _: hw.run(_tier_once),
            warm_ups=1,
            runs=TIERING_RUNS,
            before=lambda number: log.append(_row(number)),
        ),
    }


async def _tier_once(client: AsyncClient) -> None:
    await TieringService(client, LocalRunner(client)).run_once()


def _heavy(recorder: Recorder, action: Callable[[int], object]) -> Trace:
    return recorder.least(action, warm_ups=HEAVY_RUNS, runs=HEAVY_RUNS)


def _row(number: int) -> dict[str, object]:
    return {"id": number, "name": "x", "v": 1.0}


def _rows() -> list[tuple[object, ...]]:
    return [(number, "x", 1.0) for number in range(ROWS)]


def main() -> None:
    for name, trace in traced_paths().items():
        print(f"{name}: {trace.calls} calls, {len(trace.files)} files")


if __name__ == "__main__":
    main()
