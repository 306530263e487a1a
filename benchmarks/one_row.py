"""One row at a time, beside Redis and SQLite: `python -m benchmarks.one_row`.

Everything takes turns in one run, so that all meet the same machine: `GET` and `SET` of a Redis on
this machine through redis-py (through a thinner client of our own where that is not installed),
`SELECT` and `INSERT` of SQLite in process with `synchronous=FULL`, and `get`, `append` and `upsert`
of Headwater through its blocking API, in process and from a server. Prints the median and the 99th
percentile of each, and ratios.
"""

import argparse
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table as Lines
from tests.serving import serving

import headwater
from benchmarks import redis as plain_redis
from benchmarks.latency import percentile
from headwater.config.client import ClientSettings

COLUMNS = {"id": "BIGINT", "name": "STRING", "v": "DOUBLE"}
KEYS = 1_000
ROUNDS = 20
CALLS_PER_ROUND = 100
_NAME = "a name of some length"

Call = Callable[[int], object]


def row_of(number: int) -> dict[str, object]:
    """Return the row that everybody writes."""
    return {"id": number % KEYS, "name": _NAME, "v": 0.5 * number}


# ---- who takes part


def headwater_calls(
    kind: str, client: headwater.Client, unsynced: headwater.Client | None
) -> dict[str, Call]:
    """Return the calls of a storage; `unsynced` is a client that does not wait for the disk."""
    keyed = client.create_table("keyed", COLUMNS, primary_key="id")
    log = client.create_table("log", COLUMNS)
    keyed.upsert([row_of(number) for number in range(KEYS)])
    calls: dict[str, Call] = {
        f"get, {kind}": lambda at: keyed.get({"id": at % KEYS}),
        f"lookup of 4, {kind}": lambda at: keyed.lookup([(at + each) % KEYS for each in range(4)]),
        f"append, {kind}": lambda at: log.append(row_of(at)),
        f"upsert, {kind}": lambda at: keyed.upsert(row_of(at)),
    }
    if unsynced is not None:
        soon_log, soon_keyed = unsynced.table("log"), unsynced.table("keyed")
        calls |= {
            f"append without sync, {kind}": lambda at: soon_log.append(row_of(at)),
            f"upsert without sync, {kind}": lambda at: soon_keyed.upsert(row_of(at)),
        }
    return calls


def redis_calls(directory: Path, stack: ExitStack) -> tuple[dict[str, Call], str]:
    """Return the calls of Redis and the name of the client; none where it is not installed."""
    running = stack.enter_context(plain_redis.running(directory))
    if running is None:
        return {}, "no Redis on this machine"
    value = repr(row_of(1)).encode()
    if find_spec("redis") is None:
        thin = running
        thin.set_many([(b"%d" % each, value) for each in range(KEYS)])
        return {
            "Redis GET": lambda at: thin.get(b"%d" % (at % KEYS)),
            "Redis SET": lambda at: thin.set_many([(b"%d" % (at % KEYS), value)]),
        }, "a thin client of our own, as redis-py, to which the aims refer, is not installed"
    module = import_module("redis")
    client = module.Redis(port=running.port)
    for each in range(KEYS):
        client.set(each, value)
    return {
        "Redis GET": lambda at: client.get(at % KEYS),
        "Redis SET": lambda at: client.set(at % KEYS, value),
    }, f"redis-py {module.__version__}"


def sqlite_calls(directory: Path) -> dict[str, Call]:
    """Return the calls of SQLite, each a transaction of its own that is on disk when it ends."""
    database = sqlite3.connect(directory / "sqlite.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE keyed (id INTEGER PRIMARY KEY, name TEXT, v REAL)")
    database.execute("CREATE TABLE log (id INTEGER, name TEXT, v REAL)")
    rows = [tuple(row_of(number).values()) for number in range(KEYS)]
    database.executemany("INSERT INTO keyed VALUES (?, ?, ?)", rows)

    def get(at: int) -> object:
        return database.execute("SELECT * FROM keyed WHERE id = ?", [at % KEYS]).fetchone()

    def append(at: int) -> object:
        return database.execute("INSERT INTO log VALUES (?, ?, ?)", [*row_of(at).values()])

    def upsert(at: int) -> object:
        return database.execute("REPLACE INTO keyed VALUES (?, ?, ?)", [*row_of(at).values()])

    return {"SQLite SELECT": get, "SQLite INSERT": append, "SQLite REPLACE": upsert}


# ---- measuring and telling


def measured(calls: dict[str, Call], *, rounds: int) -> dict[str, list[float]]:
    """Return the microseconds of every call; all take turns."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            for at in range(CALLS_PER_ROUND):
                began = time.perf_counter_ns()
                call(number * CALLS_PER_ROUND + at)
                if number:  # The first round makes connections and fills caches.
                    took[name].append((time.perf_counter_ns() - began) / 1000)
    return took


GET_EMBEDDED_US = 60
# What is compared with what, and the aim where there is one.
RATIOS = (
    ("get, served", "Redis GET", 1.5),
    ("get, embedded", "Redis GET", None),
    ("get, embedded", "SQLite SELECT", None),
    ("append without sync, served", "Redis SET", 2.5),
    ("append, embedded", "SQLite INSERT", None),
    ("upsert, embedded", "SQLite REPLACE", None),
    ("append, served", "SQLite INSERT", None),
    ("upsert, served", "append, served", 1.5),
    ("upsert, embedded", "append, embedded", 1.5),
    ("append, embedded", "write and fdatasync", None),
)


def tell(took: dict[str, list[float]], console: Console) -> None:
    """Print medians, and ratios of medians."""
    lines = Lines("one row", "p50 µs", "p99 µs")
    for name, values in took.items():
        lines.add_row(name, f"{percentile(values, 50):.0f}", f"{percentile(values, 99):.0f}")
    console.print(lines)
    ratios = Lines("ratio of medians", "to", "ratio", "aim")
    for name, other, aim in RATIOS:
        if name in took and other in took:
            ratio = percentile(took[name], 50) / percentile(took[other], 50)
            ratios.add_row(name, other, f"{ratio:.2f}", "" if aim is None else f"at most {aim}")
    console.print(ratios)
    of_get = percentile(took["get, embedded"], 50)
    console.print(f"get, embedded: {of_get:.0f} µs, aim at most {GET_EMBEDDED_US}.")
    with_sync, without = (
        percentile(took[name], 50) for name in ("append, served", "append without sync, served")
    )
    sync = percentile(took["write and fdatasync"], 50)
    console.print(
        f"The sync of a served append takes {with_sync - without:.0f} µs,"
        f" aim at most one write and fdatasync: {sync:.0f} µs."
    )


def main() -> None:
    """Run everything once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    soon = ClientSettings(acks=1)
    console = Console()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        calls, redis_client = redis_calls(directory, stack)
        calls |= sqlite_calls(directory)
        file = stack.enter_context((directory / "plain").open("ab", buffering=0))
        calls["write and fdatasync"] = lambda _: (file.write(bytes(300)), os.fdatasync(file))
        embedded = stack.enter_context(headwater.open(directory / "embedded"))
        calls |= headwater_calls("embedded", embedded, None)
        server = stack.enter_context(serving(directory / "served"))
        clients = [
            stack.enter_context(headwater.connect(server.address, settings=settings))
            for settings in (ClientSettings(), soon)
        ]
        calls |= headwater_calls("served", clients[0], clients[1])
        took = measured(calls, rounds=rounds)
        console.print(f"Redis through {redis_client}; load {os.getloadavg()[0]:.1f}.")
        tell(took, console)


if __name__ == "__main__":
    main()
