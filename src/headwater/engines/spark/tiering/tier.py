"""Tiering from a program or a notebook: one call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.client.sync.client import Client
from headwater.engines.spark.tiering.tierer import run_on_spark
from headwater.errors import RequestError
from headwater.runtime.loops import LoopThread
from headwater.tiering.job import TieringJob
from headwater.tiering.progress import Ended, Failed, Listener, News, deaf
from headwater.tiering.settings import TieringSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredRound:
    """Tell what a round brought into a lake table."""

    table: str
    rows: int
    files: int
    bytes: int
    snapshot: int | None
    """Id of the newest snapshot in the lake; None if there is none."""
    rows_left: int
    """Rows that wait for the next round, since this one had enough."""
    seconds: float

    @classmethod
    def of(cls, news: Ended) -> "TieredRound":
        """Return the short form of what a tierer tells."""
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
    settings: TieringSettings | None = None,
    listener: Listener = deaf,
) -> list[TieredRound]:
    """Copy what tables hold, and their lake tables do not, into the lake.

    The target is HOST:PORT of a server, a data directory, or a client that was opened with
    `listen=True`; workers of Spark have to reach it, and the warehouse as well. All tables with
    `table.datalake.enabled` are tiered, unless some are named. What `lake` says stands above the
    options of the lake that the server tells.

    With `once` it ends when everything is in the lake that was there at the beginning, and returns
    what each round did; if tables failed, it raises the first error when the others are done.
    Without, it goes on until it is interrupted. `listener` is told of every step.
    """
    job = TieringJob(
        target=_place(target),
        user=user,
        password=password,
        tables=(tables,) if isinstance(tables, str) else tuple(tables),
        lake=lake or {},
        settings=settings or TieringSettings(),
        is_once=once,
    )
    rounds: list[TieredRound] = []
    faults: list[Failed] = []

    def hear(news: News) -> None:
        listener(news)
        match news:
            case Ended():
                rounds.append(TieredRound.of(news))
            case Failed() if not news.is_upkeep:
                faults.append(news)
            case _:
                pass

    _run(job, spark, hear)
    if faults:
        raise faults[0].fault
    return rounds


def _run(job: TieringJob, spark: SparkSession, hear: Listener) -> None:
    # On a thread of its own: a notebook has a loop running on this one.
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
            "Nobody else can reach this storage.",
            hint="Open it with headwater.open(…, listen=True), so that workers of Spark can.",
        )
    return target.address
