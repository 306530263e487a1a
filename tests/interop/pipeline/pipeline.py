"""Tables of a cluster with all that reads and writes them, and one oracle: the fold of the log."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming import StreamingQuery

import headwater
import headwater.duckdb
import headwater.polars
from headwater.aio import AsyncClient
from headwater.engines.spark.source import FORMAT
from headwater.model.bucket import TableBucket
from headwater.read.log_scan import LogScan
from headwater.spark import TieredRound, read, tier
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import Listener, deaf
from tests.interop.lake_cluster import LakeCluster
from tests.tiering.world import folded

ORDERS = {"id": "BIGINT", "city": "STRING", "amount": "BIGINT"}
LAKE = {"table.datalake.enabled": True, "table.datalake.freshness": "1s"}
CITIES = ("bern", "oslo", "ulm", "wien")
TIERING = TieringSettings(poll_interval_s=0.5)


@dataclass
class Pipeline:
    spark: SparkSession
    lake_cluster: LakeCluster
    client: headwater.Client
    made: list[headwater.Table] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.lake_cluster.cluster.bootstrap

    @property
    def lake(self) -> dict[str, str]:
        return dict(self.lake_cluster.lakes.config)

    @property
    def server(self) -> Mapping[str, str]:
        """Return what Spark needs to reach the cluster."""
        return {"bootstrap.servers": self.address}

    @property
    def options(self) -> Mapping[str, str]:
        """Return what a reader of Spark needs to reach the cluster and its lake."""
        return {**self.server, "lake.options": json.dumps(self.lake)}

    # ---- tables

    def create(self, *, is_keyed: bool = False, has_lake: bool = False) -> headwater.Table:
        """Create a table of orders; lakes keep the tables that clusters drop."""
        table = self.client.create_table(
            f"orders_{uuid4().hex}",
            ORDERS,
            primary_key="id" if is_keyed else (),
            buckets=3,
            options=LAKE if has_lake else {},
        )
        self.made.append(table)
        return table

    def drop_all(self) -> None:
        for table in self.made:
            self.client.drop_table(table.path)

    def leader(self, table: headwater.Table) -> int:
        """Return which tablet server leads the first bucket of a table."""
        bucket = TableBucket(table.info.table_id, 0, None)

        async def look(client: AsyncClient) -> int:
            cluster = client.cluster
            # Right after a table was made, nobody leads it.
            return await cluster.retries.run(lambda: cluster.leader(bucket), what="Looking")

        return self.client.run(look)

    # ---- Spark

    def frame(self, start: int, end: int, *, amount: int = 0) -> DataFrame:
        """Return orders, made by three tasks."""
        cities = F.array(*map(F.lit, CITIES))
        return self.spark.range(start, end, 1, 3).select(
            "id",
            F.element_at(cities, (F.col("id") % len(CITIES) + 1).cast("int")).alias("city"),
            F.lit(amount).cast("bigint").alias("amount"),
        )

    def write(self, frame: DataFrame, table: headwater.Table) -> None:
        frame.write.format(FORMAT).options(**self.server).mode("append").save(table.name)

    def stream(self, table: headwater.Table, **options: str) -> DataFrame:
        reader = self.spark.readStream.format(FORMAT).options(**self.options)
        return reader.options(**options).load(table.name)

    def copy(
        self, frame: DataFrame, table: headwater.Table, checkpoint: Path, **trigger: object
    ) -> StreamingQuery:
        """Start to write a stream into a table."""
        writer = frame.writeStream.format(FORMAT).options(**self.server)
        writer = writer.option("table", table.name).option("checkpointLocation", str(checkpoint))
        return writer.trigger(**trigger).start()

    def tier(self, table: headwater.Table, *, listener: Listener = deaf) -> list[TieredRound]:
        """Bring what a table holds into the lake, on Spark."""
        return tier(
            self.spark,
            self.address,
            tables=table.name,
            lake=self.lake,
            settings=TIERING,
            listener=listener,
        )

    # ---- what is there

    def by_spark(self, table: headwater.Table) -> Counter:
        reader = self.spark.read.format(FORMAT).options(**self.options)
        return counted(reader.load(table.name).collect())

    def by_spark_natively(self, table: headwater.Table) -> Counter:
        return counted(read(self.spark, table.name, at=self.address, lake=self.lake).collect())

    def by_duckdb(self, table: headwater.Table) -> Counter:
        with duckdb.connect() as connection:
            headwater.duckdb.install(connection, lake=self.lake)
            place = [self.address, table.path.database, table.path.table]
            return counted(connection.execute("from fluss_read(?, ?, ?)", place).fetchall())

    def by_polars(self, table: headwater.Table) -> Counter:
        frame = headwater.polars.scan(self.address, table.name, lake=self.lake)
        return counted(frame.collect().rows())

    def by_client(self, table: headwater.Table) -> Counter:
        return counted(table.view().scan().to_arrow().to_pylist(), is_named=True)

    def by_log(self, table: headwater.Table) -> Counter:
        """Return what the log makes of a table, one record after the other: the oracle."""

        async def fold(client: AsyncClient) -> Counter:
            found = await client.table(table.path)
            scan = LogScan(found.cluster, found.info, start="earliest", end="latest")
            async with aclosing(scan.batches()) as batches:
                return folded([batch async for batch in batches], found)

        rows = self.client.run(fold)
        return Counter({tuple(dict(row).values()): count for row, count in rows.items()})

    def lake_rows(self, table: headwater.Table) -> Counter:
        return counted(table.scan(mode="lake").to_pylist(), is_named=True)

    def check(self, table: headwater.Table, expected: Counter) -> None:
        """See that everybody reads the same rows of a table, and each of them once."""
        assert self.by_log(table) == expected
        assert self.by_client(table) == expected
        assert self.by_spark(table) == expected
        assert self.by_spark_natively(table) == expected
        assert self.by_duckdb(table) == expected
        assert self.by_polars(table) == expected


def counted(rows: Iterable, *, is_named: bool = False) -> Counter:
    """Return how often each row is there."""
    return Counter(tuple(row.values()) if is_named else tuple(row) for row in rows)


def orders(start: int, end: int, *, amount: int = 0) -> list[tuple[int, str, int]]:
    """Return the rows that `frame` has."""
    return [(number, CITIES[number % len(CITIES)], amount) for number in range(start, end)]
