"""Tier on Spark with one call, from a program or a notebook."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.config.client import Security
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.tiering.runner import SparkRunner
from headwater.errors import RequestError
from headwater.runtime.loops import LoopThread
from headwater.runtime.tasks import aside
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import Listener, News, TurnEnded, TurnFailed, deaf
from headwater.tiering.service import TieringJob, run_job

_COMMA = ","


async def run_on_spark(
    job: TieringJob, spark: Callable[[], SparkSession], *, listener: Listener = deaf
) -> None:
    """Run a job with Spark tasks; workers reach a local directory through this process."""

    @asynccontextmanager
    async def started(client: AsyncClient) -> AsyncIterator[SparkRunner]:
        runner = SparkRunner(await aside(spark), _connection(job, client))
        try:
            yield runner
        finally:
            runner.close()

    await run_job(replace(job, listens=True), started, listener=listener)


def _connection(job: TieringJob, client: AsyncClient) -> SparkConnection:
    assert client.address is not None, "it listens, or is the address of others"
    return SparkConnection(
        servers=tuple(client.address.split(_COMMA)),
        user=job.user,
        password=job.password,
        security=job.security,
        deadline_s=job.deadline_s,
    )


# Tiering from a program or a notebook: one call.


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredRound:
    """What a round copied into a lake table."""

    table: str
    rows: int
    files: int
    bytes: int
    snapshot: int | None
    """Id of the newest snapshot in the lake; None if there is none."""
    rows_left: int
    """Rows that wait for the next round, since this one reached its limit."""
    seconds: float

    @classmethod
    def of(cls, news: TurnEnded) -> "TieredRound":
        """The short form of a tierer's report."""
        report = news.report
        return cls(
            table=str(news.path),
            rows=report.row_count,
            files=report.file_count,
            bytes=report.byte_count,
            snapshot=None if report.snapshot is None else report.snapshot.snapshot_id,
            rows_left=report.rows_left,
            seconds=round(news.seconds, 3),
        )


def tier(  # noqa: PLR0913 - one argument per choice
    spark: SparkSession,
    target: str | Path | Client,
    *,
    tables: str | Sequence[str] = (),
    once: bool = True,
    lake: Mapping[str, str] | None = None,
    user: str | None = None,
    password: str | None = None,
    security: Security = (),
    settings: TieringSettings | None = None,
    listener: Listener = deaf,
) -> list[TieredRound]:
    """Copy what is in tables but not yet in their lake tables into the lake.

    The target is HOST:PORT of a server, a data directory, or a client that was opened with
    `listen=True`; Spark's workers must be able to reach it, and the warehouse as well. All tables
    with `table.datalake.enabled` are tiered, unless some are named. Options in `lake` override
    those that the server sends. `security` are settings of encryption and logins by name, such as
    `ClientSettings(tls=True, ...).security`.

    With `once` it returns when everything that existed at the start is in the lake, with what each
    round did; if tables failed, it raises the first error when the others are done. Without it, it
    runs until it is interrupted. `listener` is told about every step.
    """
    job = TieringJob(
        target=_place(target),
        user=user,
        password=password,
        security=security,
        tables=(tables,) if isinstance(tables, str) else tuple(tables),
        lake=lake or {},
        settings=settings or TieringSettings(),
        is_once=once,
    )
    rounds: list[TieredRound] = []
    faults: list[TurnFailed] = []

    def hear(news: News) -> None:
        listener(news)
        match news:
            case TurnEnded():
                rounds.append(TieredRound.of(news))
            case TurnFailed() if not news.is_upkeep:
                faults.append(news)
            case _:
                pass

    _run(job, spark, hear)
    if faults:
        raise faults[0].fault
    return rounds


def _run(job: TieringJob, spark: SparkSession, hear: Listener) -> None:
    # On its own thread: a notebook already runs an event loop on this one.
    loop = LoopThread("headwater-tier")
    try:
        loop.run(run_on_spark(job, lambda: spark, listener=hear))
    finally:
        loop.close()


def _place(target: str | Path | Client) -> str | Path:
    if not isinstance(target, Client):
        return target
    if target.address is None:
        raise RequestError(
            "Other processes cannot reach this storage.",
            hint=(
                "Open it with headwater.open(…, listen=True), so that Spark's workers can reach it."
            ),
        )
    return target.address
