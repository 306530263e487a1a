"""Run a pipeline from PostgreSQL: ranges of the tables, and the stream of their changes.

One process holds the replication connection, decodes, and writes epochs; ranges are read and
written by Spark tasks. An epoch is written while the next one is gathered; ranges are read between
two epochs, so that none is read while changes of it are on their way.
"""

import select
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from headwater import errors
from headwater.client.sync.client import Client
from headwater.pipelines.ingest.follow import IngestCounts, SourceFollower, StoppedError
from headwater.pipelines.ingest.form import PipelineForm
from headwater.pipelines.ingest.journal import PipelineJournal
from headwater.pipelines.ingest.outset import SlotInUseError, stand
from headwater.pipelines.ingest.postgres.stream import ChangeStream
from headwater.pipelines.ingest.sink import IngestSink
from headwater.pipelines.ingest.snapshot import RangeFailedError, RangeReader
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

RECONNECT_WITHIN_S = 600.0
RECONNECT_PAUSE_S = 0.5
SLOT_FREE_WITHIN_S = 75.0
"""Somewhat longer than a server waits for a client that is gone."""

_events = Events("ingest")


def _never() -> bool:
    return False


@dataclass(slots=True)
class IngestRun:
    """Runs one pipeline until it is stopped."""

    form: PipelineForm
    reader: RangeReader
    """Who reads ranges: this process or Spark."""
    client: Client
    clock: Clock
    restart: bool = False
    once: bool = False
    """End when everything is taken that is there now."""
    is_stopped: Callable[[], bool] = _never
    counts: IngestCounts = field(default_factory=IngestCounts)
    _away_since: float | None = None
    _epochs: int = 0

    def run(self) -> None:
        """Run until stopped; a database that restarts is waited for."""
        journal = PipelineJournal(self.client, self.form.handling.name)
        journal.want({"stop": False})
        with ThreadPoolExecutor(1, thread_name_prefix="headwater-ingest") as threads:
            try:
                while not self._attempt(journal, threads):
                    self.counts.state = "waiting"
                    select.select([], [], [], RECONNECT_PAUSE_S)
            finally:
                journal.tell({**self.counts.document(), "state": "stopped"})

    def _attempt(self, journal: PipelineJournal, threads: ThreadPoolExecutor) -> bool:
        """Follow until stopped; False if the source went away and may come back."""
        try:
            self._follow(journal, threads)
        except StoppedError:
            return True
        except (errors.DisconnectedError, RangeFailedError, SlotInUseError) as fault:
            now = self.clock.monotonic()
            if self._away_since is None or self.counts.epochs != self._epochs:
                self._away_since, self._epochs = now, self.counts.epochs
            is_busy = isinstance(fault, SlotInUseError)
            limit = SLOT_FREE_WITHIN_S if is_busy else RECONNECT_WITHIN_S
            if self.is_stopped() or now - self._away_since > limit:
                raise
            _events.warning("source is away", reason=str(fault))
            return False
        return True

    def _follow(self, journal: PipelineJournal, threads: ThreadPoolExecutor) -> None:
        sink = IngestSink(self.form, self.client)
        standing = stand(self.form, journal, sink, restart=self.restart)
        with ChangeStream(self.form.source) as stream:
            # Whoever has the slot's only connection runs the pipeline.
            journal.take_over()
            self.restart = False
            follower = SourceFollower(
                form=self.form,
                reader=self.reader,
                journal=journal,
                sink=sink,
                stream=stream,
                threads=threads,
                clock=self.clock,
                standing=standing,
                counts=self.counts,
                is_stopped=self.is_stopped,
                once=self.once,
            )
            follower.run()
