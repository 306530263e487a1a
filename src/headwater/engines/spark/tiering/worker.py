"""What a Spark task does for tiering: one task of a round, and an answer for the driver."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.engines.spark.clients import Connection
from headwater.engines.spark.tiering.parcels import Answer, Task, pack_answer, unpack_tasks
from headwater.errors import HeadwaterError
from headwater.tiering.task import TieringTask, rewrite_files, tier_share

ANSWERS = "task bigint, answer binary"
_SCHEMA = pa.schema([("task", pa.int64()), ("answer", pa.binary())])


@dataclass(frozen=True, slots=True)
class Errand:
    """Hold tasks for workers; which one a worker runs, the row it is given says."""

    connection: Connection
    tasks: bytes = field(repr=False)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield an answer for each number of a task."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = pack_answer(self._answer(number))
                yield pa.record_batch([[number], [answer]], schema=_SCHEMA)

    def _answer(self, number: int) -> Answer:
        try:
            return self._ran(unpack_tasks(self.tasks)[number])
        except HeadwaterError as fault:
            # To run it again elsewhere would end the same way. What ends otherwise, as when a
            # machine is lost, Spark runs again; that writes new files, and nobody sees the others.
            return fault.with_traceback(None)

    def _ran(self, task: Task) -> Answer:
        link = self.connection.link()
        if isinstance(task, TieringTask):
            return link.loop.run(tier_share(task, link.awaiting))
        return link.loop.run(rewrite_files(task))
