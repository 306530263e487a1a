"""The queries of the union read, for DuckDB, Polars and DataFusion, and for plain Parquet files."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import datafusion
import duckdb
import polars as pl

import headwater
import headwater.datafusion
import headwater.duckdb
import headwater.polars
from benchmarks.union_data import Made

SPAN = timedelta(minutes=5)
Query = Callable[[], object]
"""Runs one query to its end, planning included."""


def queries(made: Made) -> Mapping[str, str]:
    """Return the queries in SQL."""
    start = datetime.fromtimestamp(made.middle_us / 1e6, UTC).replace(tzinfo=None)
    between = f"timestamp '{start}' AND timestamp '{start + SPAN}'"
    return {
        "group-by": "SELECT region, sum(amount), count(*) FROM {} GROUP BY region",
        "range": f"SELECT sum(amount), count(*) FROM {{}} WHERE ts BETWEEN {between}",
        "LIKE": "SELECT count(*) FROM {} WHERE note LIKE '%abc%'",
        "top-10": "SELECT * FROM {} ORDER BY amount DESC LIMIT 10",
        "count": "SELECT count(*) FROM {}",
        "point": f"SELECT * FROM {{}} WHERE id = {made.rows // 2}",
        "full scan": (
            'SELECT max(id), max(ts), max(region), max("user"), max(amount), max(qty), max(note)'
            " FROM {}"
        ),
    }


def in_duckdb(hw: headwater.Client, made: Made, kind: str) -> Mapping[str, tuple[Query, Query]]:
    """Return each query on the table, and on plain files."""
    con = duckdb.connect()
    headwater.duckdb.install(con, hw)
    ours = f"fluss_read('fluss', '{made.table(kind)}')"
    plain = f"read_parquet({made.plain(kind)})"
    return {
        name: (_fetched(con, sql.format(ours)), _fetched(con, sql.format(plain)))
        for name, sql in queries(made).items()
    }


def _fetched(con: duckdb.DuckDBPyConnection, sql: str) -> Query:
    return lambda: con.execute(sql).fetchall()


def in_datafusion(hw: headwater.Client, made: Made, kind: str) -> Mapping[str, tuple[Query, Query]]:
    """Return each query on the table, and on plain files."""
    ctx = datafusion.SessionContext()
    headwater.datafusion.install(ctx, hw)
    ctx.register_parquet("plain", str(Path(made.plain(kind)[0]).parent))
    ours = f"hw.fluss.{made.table(kind)}"
    return {
        name: (_collected(ctx, sql.format(ours)), _collected(ctx, sql.format("plain")))
        for name, sql in queries(made).items()
    }


def _collected(ctx: datafusion.SessionContext, sql: str) -> Query:
    return lambda: ctx.sql(sql).to_arrow_table()


def in_polars(hw: headwater.Client, made: Made, kind: str) -> Mapping[str, tuple[Query, Query]]:
    """Return each query on the table, and on plain files."""
    start = datetime.fromtimestamp(made.middle_us / 1e6, UTC).replace(tzinfo=None)
    table, files = hw.table(made.table(kind)), made.plain(kind)
    shapes: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
        "group-by": lambda f: f.group_by("region").agg(pl.col("amount").sum(), pl.len()),
        "range": lambda f: f.filter(pl.col("ts").is_between(start, start + SPAN)).select(
            pl.col("amount").sum(), pl.len()
        ),
        "LIKE": lambda f: f.filter(pl.col("note").str.contains("abc", literal=True)).select(
            pl.len()
        ),
        "top-10": lambda f: f.top_k(10, by="amount"),
        "count": lambda f: f.select(pl.len()),
        "point": lambda f: f.filter(pl.col("id") == made.rows // 2),
        "full scan": lambda f: f.select(pl.all().max()),
    }
    return {
        name: (
            lambda shape=shape: shape(headwater.polars.scan(table)).collect(),
            lambda shape=shape: shape(pl.scan_parquet(files)).collect(),
        )
        for name, shape in shapes.items()
    }


ENGINES = {"DuckDB": in_duckdb, "Polars": in_polars, "DataFusion": in_datafusion}
