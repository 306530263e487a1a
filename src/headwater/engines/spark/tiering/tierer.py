"""A tierer whose tasks run on Spark: until all is tiered, or until it is stopped."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.client.client import AsyncClient, connect
from headwater.client.paths import table_path
from headwater.config.client import ClientSettings
from headwater.embedded.storage import open_storage
from headwater.engines.spark.clients import Connection
from headwater.engines.spark.tiering.runner import SparkRunner
from headwater.tiering.aside import aside
from headwater.tiering.lakes import Lakes
from headwater.tiering.progress import Listener, deaf
from headwater.tiering.service import TieringService
from headwater.tiering.settings import TieringSettings

_COMMA = ","


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringJob:
    """Say which tables of which storage go to the lake, and how."""

    target: str | Path
    """A data directory, or HOST:PORT of servers with commas between them."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    deadline_s: float = ClientSettings().deadline_s
    """Seconds that one call to the server may take with all its retries."""
    tables: tuple[str, ...] = ()
    """All that have a lake table, unless some are named."""
    lake: Mapping[str, str] = field(default_factory=dict)
    """Options of the lake's catalog that stand above those that the server tells."""
    settings: TieringSettings = field(default_factory=TieringSettings)
    is_once: bool = True


async def run_job(
    job: TieringJob, spark: Callable[[], SparkSession], *, listener: Listener = deaf
) -> None:
    """Tier until all is in the lake, or with `is_once` off until cancelled.

    1. Reach the storage; a directory is opened, and workers reach it through this process.
    2. Have Spark started, which takes long, and would be in vain without a storage. 3. Tier.
    """
    paths = [table_path(name) for name in job.tables]
    async with _reached(job) as (client, connection):
        runner = SparkRunner(await aside(spark), connection)
        service = TieringService(
            client,
            runner,
            settings=job.settings,
            lakes=Lakes(config=job.lake),
            listener=listener,
        )
        try:
            await (service.run_once if job.is_once else service.run)(tables=paths)
        finally:
            runner.close()


@asynccontextmanager
async def _reached(job: TieringJob) -> AsyncIterator[tuple[AsyncClient, Connection]]:
    settings = ClientSettings(deadline_s=job.deadline_s)
    if is_directory(job.target):
        opening = open_storage(job.target, listen=True, settings=settings)
    else:
        opening = connect(str(job.target), user=job.user, password=job.password, settings=settings)
    async with await opening as client:
        assert client.address is not None, "it listens, or is the address of others"
        yield (
            client,
            Connection(
                servers=tuple(client.address.split(_COMMA)),
                user=job.user,
                password=job.password,
                deadline_s=job.deadline_s,
            ),
        )


def is_directory(target: str | Path) -> bool:
    """Tell a directory from addresses, which end in a port."""
    return isinstance(target, Path) or ":" not in target or Path(target).expanduser().is_dir()
