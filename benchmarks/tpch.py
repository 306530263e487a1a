"""The 22 queries of TPC-H on union reads, against plain Parquet files with the same final rows.

All eight tables: nine rows in ten are in the lake, the rest in the log; by key (`key`) one in a
hundred was then updated and one in a thousand deleted. Both are read by the same engine in the same
process in turns, and each figure is the least processor time of the rounds, planning included; for
Spark it is that of all processes, the server too. Every answer has to be the same, in every column:
doubles within a tolerance, everything else exactly.

Run with `python -m benchmarks.tpch --scale 0.1`; the rows come from `tpchgen-cli`, so
`pip install tpchgen-cli` first. Tables are made in a directory that is removed afterwards.
"""

import argparse
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import datafusion
import duckdb
import polars as pl
from rich.console import Console
from rich.table import Table
from tests.serving import serving

import headwater
import headwater.datafusion
import headwater.duckdb
import headwater.polars
from benchmarks.tpch_data import FORMATS, KEYS, VARIANTS, Made, generate, make, version
from benchmarks.tpch_queries import POLARS, QUERIES, named
from benchmarks.union_spark import tree_cpu_s
from headwater import spark as hs

TOLERANCE = 1e-9
MS = 1e3
Rows = list[tuple[object, ...]]
Ask = Callable[[int], Rows]
"""Answers the query of this number."""


@dataclass(frozen=True)
class Asked:
    """Hold how one engine answers from the tables, and from plain files."""

    ours: Ask
    plain: Ask
    numbers: Sequence[int] = tuple(QUERIES)
    cpu_s: Callable[[], float] = time.process_time


@dataclass(frozen=True)
class Result:
    """Hold the least seconds of one query, and how its answers differ, if they do."""

    number: int
    ours: float
    plain: float
    difference: str

    @property
    def ratio(self) -> float:
        return self.ours / max(self.plain, 1e-9)


@contextmanager
def in_duckdb(made: Made) -> Iterator[Asked]:
    """Answer with views of the installed catalog, and `read_parquet`."""
    with headwater.open(made.storage) as hw, duckdb.connect() as con:
        headwater.duckdb.install(con, hw)

        def ask(name: Callable[[str], str]) -> Ask:
            return lambda number: con.execute(named(number, name)).fetchall()

        yield Asked(
            ask(lambda table: f"hw.{made.database}.{table}"),
            ask(lambda table: f"read_parquet('{made.plain(table)}/*.parquet')"),
        )


@contextmanager
def in_datafusion(made: Made) -> Iterator[Asked]:
    """Answer with the installed catalog, and registered files."""
    with headwater.open(made.storage) as hw:
        ctx = datafusion.SessionContext()
        headwater.datafusion.install(ctx, hw)
        for table in KEYS:
            ctx.register_parquet(f"plain_{table}", str(made.plain(table)))

        def ask(name: Callable[[str], str]) -> Ask:
            return lambda number: [
                tuple(row.values())
                for row in ctx.sql(named(number, name)).to_arrow_table().to_pylist()
            ]

        yield Asked(ask(lambda table: f"hw.{made.database}.{table}"), ask("plain_{}".format))


@contextmanager
def in_polars(made: Made) -> Iterator[Asked]:
    """Answer with Polars's SQL over lazy frames."""
    with headwater.open(made.storage) as hw:
        tables = {name: hw.table(f"{made.database}.{name}") for name in KEYS}

        def ask(frame: Callable[[str], pl.LazyFrame]) -> Ask:
            return lambda number: (
                pl.SQLContext({name: frame(name) for name in KEYS})
                .execute(QUERIES[number])
                .collect()
                .rows()
            )

        yield Asked(
            ask(lambda name: headwater.polars.scan(tables[name])),
            ask(lambda name: pl.scan_parquet(str(made.plain(name) / "*.parquet"))),
            POLARS,
        )


@contextmanager
def in_spark(made: Made) -> Iterator[Asked]:
    """Answer by name through the catalog, from a server of its own."""
    spark = hs.session("tpch", master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
    with serving(made.storage) as server:
        catalog = f"{made.lake}_{made.variant}"
        hs.catalog(spark, catalog, bootstrap_servers=server.address)
        for table in KEYS:
            spark.read.parquet(str(made.plain(table))).createOrReplaceTempView(f"plain_{table}")

        def ask(name: Callable[[str], str]) -> Ask:
            return lambda number: [tuple(row) for row in spark.sql(named(number, name)).collect()]

        yield Asked(
            ask(lambda table: f"{catalog}.{made.database}.{table}"),
            ask("plain_{}".format),
            cpu_s=tree_cpu_s,
        )


ENGINES = {
    "duckdb": in_duckdb,
    "datafusion": in_datafusion,
    "polars": in_polars,
    "spark": in_spark,
}


def measure(asked: Asked, *, rounds: int, only: Sequence[int]) -> list[Result]:
    """Compare the answers of each query, which also warms up, then measure in turns."""
    found = []
    for number in (number for number in asked.numbers if number in only):
        told = difference(asked.ours(number), asked.plain(number))
        pairs = [
            (_cost(asked, asked.ours, number), _cost(asked, asked.plain, number))
            for _ in range(rounds)
        ]
        ours, plain = (min(costs) for costs in zip(*pairs, strict=True))
        found.append(Result(number, ours, plain, told))
    return found


def _cost(asked: Asked, ask: Ask, number: int) -> float:
    used = asked.cpu_s()
    ask(number)
    return asked.cpu_s() - used


def difference(ours: Rows, plain: Rows) -> str:
    """Say where two answers differ first; nothing if they are equal."""
    if len(ours) != len(plain):
        return f"{len(ours)} rows against {len(plain)}"
    for number, (left, right) in enumerate(zip(ours, plain, strict=True)):
        if len(left) != len(right) or not all(map(_is_equal, left, right)):
            return f"row {number}: {left} against {right}"
    return ""


def _is_equal(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        is_nan = math.isnan(left) and math.isnan(right)
        return is_nan or math.isclose(left, right, rel_tol=TOLERANCE)
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left == right and left.as_tuple().exponent == right.as_tuple().exponent
    return type(left) is type(right) and left == right


def add_rows(single: Table, summary: Table, what: tuple[str, str, str], found: list[Result]) -> str:
    """Add a line for each query and one for all of them; return what differs."""
    for each in found:
        times = (f"{MS * each.ours:.0f} ms", f"{MS * each.plain:.0f} ms", f"{each.ratio:.2f}")
        single.add_row(*what, f"q{each.number}", *times)
    worst = max(found, key=lambda each: each.ratio)
    mean = math.exp(sum(math.log(max(each.ratio, 1e-9)) for each in found) / len(found))
    whole = sum(each.ours for each in found) / max(sum(each.plain for each in found), 1e-9)
    different = [each for each in found if each.difference]
    summary.add_row(
        *what,
        str(len(found)),
        f"{mean:.2f}",
        f"{whole:.2f}",
        f"{worst.ratio:.2f} (q{worst.number})",
        ", ".join(f"q{each.number}" for each in different) or "none",
    )
    return "".join(f"{' '.join(what)} q{each.number}: {each.difference}\n" for each in different)


def bench_tpch(console: Console, directory: Path, given: argparse.Namespace) -> str:
    """Make the tables, measure every engine, print, and return what differs."""
    generate(directory / "source", given.scale)
    columns = ("engine", "lake", "variant")
    single = Table(*columns, "query", "ours", "plain", "ratio")
    summary = Table(*columns, "queries", "geometric mean", "of all time", "worst", "different")
    told = ""
    for lake in given.formats:
        for variant in given.variants:
            made = Made(directory / f"{lake}-{variant}", lake, variant)
            make(directory / "source", made)
            for engine in given.engines:
                console.print(f"{engine}, {lake}, {variant} …")
                with ENGINES[engine](made) as asked:
                    found = measure(asked, rounds=given.rounds, only=given.queries)
                if found:
                    told += add_rows(single, summary, (engine, lake, variant), found)
            shutil.rmtree(made.directory)
    console.print(single)
    console.print(summary)
    return told


def _list_of(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(allowed)}")
        return words

    return parse


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--formats", type=_list_of(FORMATS), default=list(FORMATS))
    parser.add_argument("--variants", type=_list_of(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--engines", type=_list_of(list(ENGINES)), default=list(ENGINES))
    parser.add_argument("--rounds", type=int, default=3)
    numbers = _list_of([str(number) for number in QUERIES])
    parser.add_argument("--queries", type=numbers, default=list(map(str, QUERIES)))
    given = parser.parse_args()
    given.queries = [int(number) for number in given.queries]
    return given


def main() -> None:
    """Measure and print; end with 1 if any answer differs."""
    given, console = _parse(), Console(width=120)
    directory = Path(tempfile.mkdtemp(prefix="headwater-tpch-"))
    try:
        told = bench_tpch(console, directory, given)
    finally:
        shutil.rmtree(directory)
    load = os.getloadavg()[1]
    console.print(f"{version()}, scale {given.scale}, {given.rounds} rounds, load {load:.1f}.")
    if "polars" in given.engines:
        left = ", ".join(f"q{number}" for number in QUERIES if number not in POLARS)
        console.print(f"Polars's SQL was not asked {left}.")
    if told:
        sys.exit(f"Answers differ:\n{told}")
    console.print("All answers are equal.")


if __name__ == "__main__":
    main()
