"""Tables with a lake in tests of Spark, and what brings their rows there."""

import asyncio

import headwater
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.spi import Retention
from headwater.tiering.service import TieringJob, run_job
from tests.engines.spark.conftest import Served

ROWS = {"id": "BIGINT", "name": "STRING"}


def rows(start: int, end: int, name: str = "n") -> list[dict]:
    return [{"id": number, "name": f"{name}{number}"} for number in range(start, end)]


def lake_table(
    served: Served, schema=ROWS, *, lake_format: str = "iceberg", **traits
) -> headwater.Table:
    """Create a table whose rows go to a lake."""
    options = {"table.datalake.enabled": True, "table.datalake.format": lake_format}
    traits = {"buckets": 2, **({} if "primary_key" in traits else {"bucket_by": "id"}), **traits}
    return served.create(schema, options=options | traits.pop("options", {}), **traits)


def tier(served: Served, table: headwater.Table) -> None:
    """Bring all rows of a table into its lake."""
    asyncio.run(run_job(TieringJob(target=served.address, tables=(table.name,))))


def expire(table: headwater.Table) -> None:
    """Leave the newest snapshot of a table's lake only."""
    keeper = Lakes().of(table.info).keeper(lake_spec(table.info))
    keeper.expire(Retention(snapshots_min=1, age_ms=0), now_ms=2**42)
