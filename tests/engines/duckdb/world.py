"""A storage with a lake, tiered when a test says so, and DuckDB on top of it."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa

import headwater
import headwater.duckdb
from headwater.cluster.lake import TieringAssignment
from headwater.config.client import ClientSettings
from headwater.lake.lakes import Lakes, lake_spec
from headwater.model.boundary import TieringEpoch
from headwater.tiering.plan import Limits
from headwater.tiering.progress import TieringTurn
from headwater.tiering.round import tier_round
from headwater.tiering.task import LocalRunner
from tests.lake.formats import config_of

SCHEMA = {"id": "BIGINT", "city": "STRING", "amount": "DOUBLE"}
LIMITS = Limits(rows_max=10_000_000)


@dataclass
class World:
    """Hold a storage and a connection on which it is installed."""

    hw: headwater.Client
    con: duckdb.DuckDBPyConnection
    format: str
    lake: dict[str, str]
    names: count = field(default_factory=count)
    turns: count = field(default_factory=lambda: count(1))

    @classmethod
    def open(cls, directory: Path, lake_format: str) -> "World":
        lake = directory / "lake"
        lake.mkdir(parents=True)
        config = dict(config_of(lake_format, lake))
        settings = ClientSettings(deadline_s=30.0)
        hw = headwater.open(directory / "data", listen=True, settings=settings, lake=config)
        con = duckdb.connect()
        headwater.duckdb.install(con, hw, lake=config)
        return cls(hw, con, lake_format, config)

    def close(self) -> None:
        self.con.close()
        self.hw.close()

    # ---- tables

    def table(self, schema=SCHEMA, **traits) -> headwater.Table:
        """Make a table that goes to the lake, under a name of its own."""
        options = {
            "table.datalake.enabled": True,
            "table.datalake.format": self.format,
            **traits.pop("options", {}),
        }
        routing = {} if "primary_key" in traits else {"bucket_by": next(iter(schema))}
        traits = {"buckets": 3, **routing, **traits}
        return self.hw.create_table(f"t{next(self.names)}", schema, options=options, **traits)

    def keyed(self, schema=SCHEMA, **traits) -> headwater.Table:
        return self.table(schema, **{"primary_key": next(iter(schema)), **traits})

    def tier(self, table: headwater.Table) -> None:
        """Bring everything that was written into the lake."""
        table.refresh()
        storage = self.hw.lake.heartbeat().storage_id
        epoch = TieringEpoch(1, next(self.turns))
        turn = TieringTurn(
            TieringAssignment(path=table.path, table_id=table.info.table_id, epoch=epoch), storage
        )
        self.hw.run(
            lambda client: tier_round(
                turn, client=client, runner=LocalRunner(client), lakes=self.lakes, limits=LIMITS
            )
        )

    @property
    def lakes(self) -> Lakes:
        return Lakes(config=self.lake)

    def keeper(self, table: headwater.Table):
        return self.lakes.of(table.info).keeper(lake_spec(table.info))

    # ---- queries

    def rows(self, sql: str, *values) -> list[tuple]:
        return self.con.execute(sql, list(values) or None).fetchall()

    def read(self, table: headwater.Table, options: str = "", **texts: str) -> str:
        """Return how a table is read in SQL, with options as SQL or as texts."""
        given = ["'fluss'", f"'{table.path.table}'", *filter(None, [options])]
        given += [f"{name} := '{text}'" for name, text in texts.items()]
        return f"fluss_read({', '.join(given)})"

    def arrow(self, sql: str) -> pa.Table:
        return self.con.sql(sql).to_arrow_table()

    def check(self, table: headwater.Table) -> int:
        """Compare what DuckDB reads with what the client reads, and return the number of rows."""
        found = counted(self.rows(f"SELECT * FROM {self.read(table)}"))
        scanned = table.view().scan().to_arrow()
        assert found == counted(zip(*scanned.to_pydict().values(), strict=True))
        return found.total()


def counted(rows) -> Counter:
    """Return how often each row is there."""
    return Counter(repr(tuple(row)) for row in rows)


def some(*ids: int, city: str = "Ulm") -> list[dict[str, object]]:
    return [{"id": number, "city": f"{city}{number}", "amount": number / 2} for number in ids]
