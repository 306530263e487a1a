"""The replication connection: one message after the other, and how far we have come."""

import select
from types import TracebackType
from typing import Self

import psycopg2
from psycopg2.extras import REPLICATION_LOGICAL, ReplicationCursor

from headwater import errors
from headwater.pipelines.ingest.form import PostgresSource
from headwater.pipelines.ingest.postgres import server
from headwater.pipelines.ingest.postgres.pgoutput import PROTOCOL_VERSION

STATUS_INTERVAL_S = 3600
"""The driver's own reports are not wanted: what they confirm has to be noted before."""
_IN_USE = "is active for PID"


class ChangeStream:
    """The changes of a slot, from where it was confirmed."""

    def __init__(self, source: PostgresSource) -> None:
        self._source = source
        self._connection = server.connect(source, replicates=True)
        self._cursor: ReplicationCursor = self._connection.cursor(cursor_factory=ReplicationCursor)
        self._confirmed = 0
        self._read_lsn = 0

    def __enter__(self) -> Self:
        options = {
            "proto_version": str(PROTOCOL_VERSION),
            "publication_names": f'"{self._source.publication}"',
        }
        try:
            self._cursor.start_replication(
                slot_name=self._source.slot,
                slot_type=REPLICATION_LOGICAL,
                options=options,
                decode=False,
                status_interval=STATUS_INTERVAL_S,
            )
        except psycopg2.Error as fault:
            self._connection.close()
            if _IN_USE in str(fault):
                raise errors.ConflictError(
                    f"The replication slot '{self._source.slot}' is in use: {str(fault).strip()}.",
                    hint="Stop the other process that runs this pipeline.",
                ) from fault
            raise server.lost(self._source, fault) from fault
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def read(self) -> bytes | None:
        """The next message, or None if there is none at the moment."""
        try:
            message = self._cursor.read_message()
        except psycopg2.Error as fault:
            raise server.lost(self._source, fault) from fault
        if message is None:
            return None
        self._read_lsn = int(message.data_start)
        return bytes(message.payload)

    @property
    def is_settled(self) -> bool:
        """Tell whether all that was read is confirmed.

        Then the driver confirms by itself how far the server says it is.
        """
        return self._confirmed >= self._read_lsn

    def wait(self, seconds: float) -> None:
        """Wait until there may be a message."""
        select.select([self.fileno()], [], [], seconds)

    def fileno(self) -> int:
        """What to select on."""
        return int(self._connection.fileno())

    @property
    def log_end(self) -> int:
        """How far the server's log is known to us: everything before was sent."""
        return int(self._cursor.wal_end or 0)

    def confirm(self, lsn: int) -> None:
        """Tell the server what it may forget."""
        self._confirmed = max(self._confirmed, lsn)
        self.stay()

    def stay(self) -> None:
        """Tell the server that we are alive; it answers how far it is."""
        try:
            self._cursor.send_feedback(  # type: ignore[no-untyped-call]  # the stubs have no types
                write_lsn=self._confirmed,
                flush_lsn=self._confirmed,
                apply_lsn=self._confirmed,
                reply=True,
                force=True,
            )
        except psycopg2.Error as fault:
            raise server.lost(self._source, fault) from fault
