"""The errors, by what the caller should do; codes that are only received are in `codes`."""

import re
from collections.abc import Mapping
from typing import ClassVar

HIDDEN = "***"
# The user info of an address, and the values of secrets in its query.
_USER_INFO = re.compile(r"(?<=://)[^/?#\s'\"@]+(?=@)")
_SECRET_VALUE = re.compile(
    r"([?&][^=&\s]*(?:password|secret|token|credential|signature|key)[^=&\s]*=)[^&\s'\")]+",
    re.IGNORECASE,
)


class HeadwaterError(Exception):
    """The root of all errors that are raised on purpose.

    The text of an error is its message plus the hint it was raised with, if any. The attribute
    `hint` falls back to the hint of the class, which is not part of the text: the text is sent
    over the wire, and the other side has hints of its own. A traceback shows it as a note.
    """

    code: int = -1
    retriable: ClassVar[bool] = False
    hint: str = "Read the message; this version of Headwater does not know the error code."
    rows_written: int | None = None
    """After a failed write: rows that were written anyway, if known."""
    rows_unknown: int = 0
    """After a failed write: rows that may or may not have been written."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        # Messages of libraries and databases may quote an address with its password.
        message = redacted(message)
        super().__init__(f"{message} {hint}".rstrip())
        self.message = message
        if hint:
            self.hint = hint
        else:
            self.add_note(f"Hint: {self.hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), str(self), self.__dict__)


def redacted(text: str) -> str:
    """Hide the passwords and tokens in the addresses that a text contains."""
    if "://" not in text:
        return text
    return _SECRET_VALUE.sub(rf"\1{HIDDEN}", _USER_INFO.sub(HIDDEN, text))


def _restored(
    kind: type[HeadwaterError], text: str, fields: Mapping[str, object]
) -> HeadwaterError:
    """Unpickle without `__init__`, whose arguments differ between subclasses."""
    fault = kind.__new__(kind, text)
    fault.__dict__.update(fields)
    return fault


# RequestError: change the request.


class RequestError(HeadwaterError):
    """The request can never succeed as it is."""

    code = 15
    hint = "Change the request; sending it again unchanged will not help."


class InvalidNameError(RequestError):
    """A database or table name is not allowed."""

    code = 16
    hint = "Use only letters, digits, '_' and '-', and do not start with '__'."


class InvalidTableError(RequestError):
    """A table definition is invalid, or an operation does not fit the table."""

    code = 15
    hint = "Change the table definition, or use an operation that fits the table."


class InvalidOptionError(RequestError):
    """An option is unknown, malformed or out of range."""

    code = 39
    hint = "Look up the option in the reference and correct its name or value."


class InvalidAlterError(RequestError):
    """The table cannot be altered in this way."""

    code = 56
    hint = "Create a new table and copy the rows if you need the change."


class InvalidPartitionError(RequestError):
    """A partition spec does not fit its table."""

    code = 43
    hint = "Give one string for each partition key of the table."


class NotPartitionedError(RequestError):
    """A partition was named for a table that has no partitions."""

    code = 37
    hint = "Leave out the partition."


class InvalidProjectionError(RequestError):
    """The projected columns do not fit the schema."""

    code = 34
    hint = "Name columns of the table, each only once."


class InvalidAcksError(RequestError):
    """`acks` is not -1, 0 or 1."""

    code = 18
    hint = "Use -1 to wait until the rows are durable."


class InvalidTimestampError(RequestError):
    """A timestamp is in the future."""

    code = 38
    hint = "Use a time in the past, or ask for the latest offset."


class RecordTooLargeError(RequestError):
    """A batch exceeds the size limit."""

    code = 13
    hint = "Write fewer rows at a time."


class UnsupportedError(RequestError):
    """The API, version or feature is not supported here."""

    code = 2
    hint = "Do without the feature, or use a server version that supports it."


class RemoteLogError(UnsupportedError):
    """Rows in a cluster's remote log storage cannot be read from this machine."""

    code = 2
    hint = "Give this machine access to the remote storage, or start at a later offset."


class OffsetOutOfRangeError(RequestError):
    """An offset is before the start or after the end of the log."""

    code = 19
    hint = "Read from the earliest or the latest offset."


class NotPrimaryKeyTableError(RequestError):
    """A log table has no primary key, so it has no operations by key."""

    code = 20
    hint = "Use append and scan, or create a table with a primary key."


class InvalidTargetColumnError(RequestError):
    """The columns of a partial update do not fit the table."""

    code = 35
    hint = "Include every primary-key column; the other columns must be nullable."


class DeletionDisabledError(RequestError):
    """The table does not allow deletes."""

    code = 57
    hint = "Set 'table.delete.behavior' to 'allow' to delete rows."


class InvalidScanError(RequestError):
    """A scan request contradicts itself or an earlier request of the same scan."""

    code = 68
    hint = "Start the scan again."


class InvalidValueError(RequestError):
    """A column cannot hold a value, for instance a null in a NOT NULL column."""

    code = 15
    hint = "Change the value, or add a column that can hold it."


class ValueOverflowError(RequestError):
    """A merged value does not fit its column."""

    code = 15
    hint = "Use a column of a wider type."


class ClosedError(RequestError):
    """The client or the storage is already closed."""

    code = -1
    hint = "Open it again, or close it later."


class InvalidTokenError(RequestError):
    """A token is malformed, truncated, altered or belongs to another table."""

    code = 15
    hint = "Pass a token from `view.token()` unchanged, to the table it was taken from."


class StatementError(RequestError):
    """A statement of a SQL script cannot be parsed or planned.

    Its message names line and column, which are fields as well, and shows the line with a caret.
    """

    code = 15
    hint = "Change the statement at the place that the message shows."
    line: int = 0
    column: int = 0

    def __init__(self, message: str, *, hint: str = "", shown: str = "") -> None:
        super().__init__(f"{message} {hint}".rstrip() + shown)
        self.message = message
        if hint:
            self.hint = hint


# MissingError: create the thing first, or name another.


class MissingError(HeadwaterError):
    """Something named in the request does not exist."""

    code = 7
    hint = "Create it first, or use another name."


class DatabaseMissingError(MissingError):
    """The database does not exist."""

    code = 4
    hint = "Create the database, or list the databases to find the right name."


class TableMissingError(MissingError):
    """The table does not exist."""

    code = 7
    hint = "Create the table, or list the tables of the database to find the right name."


class PartitionMissingError(MissingError):
    """The partition does not exist."""

    code = 36
    hint = "Create the partition, or list the partitions of the table."


class SchemaMissingError(MissingError):
    """The table does not have this schema version, or does not have it yet."""

    code = 9
    retriable = True
    hint = "Try again: it takes a moment until every server knows a new schema version."


class BucketMissingError(MissingError):
    """The table or bucket id is unknown."""

    code = 21
    retriable = True
    hint = "Refresh the table's metadata and try again; the table may have been dropped."


class LakeMissingError(MissingError):
    """No lake is configured for the table."""

    code = 40
    hint = "Configure a lake on the server, or read the table without it."


class SnapshotMissingError(MissingError):
    """There is no such snapshot of the bucket's rows."""

    code = 41
    hint = "Ask for the latest snapshot, or read the log from its start."


class LakeSnapshotMissingError(MissingError):
    """The table has no such snapshot in the lake."""

    code = 53
    hint = "Wait until the table has been tiered once, or ask for the latest snapshot."


class ScannerMissingError(MissingError):
    """The server does not know the scanner."""

    code = 67
    hint = "Start the scan again."


class ScannerExpiredError(MissingError):
    """The server closed an idle scanner."""

    code = 66
    hint = "Start the scan again, and read faster than the scanner expires."


class PositionMissingError(MissingError):
    """The table can no longer be read as of this position."""

    code = 53
    hint = "Read a later position; table options decide how long log and snapshots are kept."


# ConflictError: the thing already exists, or is in the way.


class ConflictError(HeadwaterError):
    """Something already exists, or another process is in the way."""

    code = 8
    hint = "Use what exists, remove it first, or choose another name."


class DatabaseExistsError(ConflictError):
    """The database already exists."""

    code = 6
    hint = "Use it as it is, or choose another name."


class DatabaseNotEmptyError(ConflictError):
    """The database still contains tables."""

    code = 5
    hint = "Drop its tables first, or drop it with cascade."


class TableExistsError(ConflictError):
    """The table already exists."""

    code = 8
    hint = "Use it as it is, drop it first, or choose another name."


class PartitionExistsError(ConflictError):
    """The partition already exists."""

    code = 42
    hint = "Use it as it is."


class PartitionLimitError(ConflictError):
    """The table has reached its limit of partitions."""

    code = 45
    hint = "Drop partitions you do not need, or let them expire."


class BucketLimitError(ConflictError):
    """The table has more buckets than allowed."""

    code = 49
    hint = "Use fewer buckets."


class TableLimitError(ConflictError):
    """The user has created as many tables as they may."""

    code = 1002
    hint = "Drop some, or ask an operator to raise the limit."


class ScannerLimitError(ConflictError):
    """Too many scans are open."""

    code = 69
    hint = "Close scans you do not need, or try again later."


class NumbersExhaustedError(ConflictError):
    """An auto-increment column has run out of numbers for its type."""

    code = 15
    hint = "Create the table again with a wider column."


class DirectoryInUseError(ConflictError):
    """Another process is using the data directory."""

    code = -1
    hint = "Stop that process, or connect to it instead of opening the directory."


class CursorLostError(ConflictError):
    """Another member has taken over the bucket."""

    code = -1
    hint = "Stop reading the bucket; rows after the last commit are read again elsewhere."


class EpochDiffersError(ConflictError):
    """An epoch was started with different rows."""

    code = -1
    hint = "Write the same rows in every attempt, or use another sink name."


class TieringFencedError(ConflictError):
    """Another tiering service has taken over the table."""

    code = 50
    hint = "Stop tiering the table; the other service continues."


class LakeMovedError(ConflictError):
    """The newest snapshot of the lake table is not the one the commit is based on."""

    code = -1
    hint = "Read the newest snapshot and decide again; nothing was committed."


class LakeRewrittenError(ConflictError):
    """Files that a commit refers to have been rewritten in the meantime."""

    code = -1
    hint = "Run the round again from the newest snapshot; nothing was committed."


class BoundaryMovedError(ConflictError):
    """Others tiered offsets after the round was planned, or the table was replaced."""

    code = -1
    hint = "Plan the round again from the newest snapshot; nothing was committed."


class LakeTableDiffersError(ConflictError):
    """The lake has a table of this name with other columns or another layout."""

    code = -1
    hint = "Rename or drop the lake table, or change its columns to match the table."


class LakeNotAllowedError(ConflictError):
    """A lake table refers to code or a location that this process may not use."""

    code = -1
    hint = "Remove what the error names from the lake table, or allow it in this process."
    location: str | None = None
    """The location that is not allowed, if it is one."""


class LakeRowsDeletedError(ConflictError):
    """Somebody else deleted tiered rows from the lake table."""

    code = -1
    hint = "Roll back to the previous lake snapshot, or rebuild the lake table from the log."


class LogGapError(ConflictError):
    """The log no longer has the rows that the lake needs next."""

    code = -1
    hint = "Drop the lake table so that tiering starts over with what the log still has."


class LakeAheadError(ConflictError):
    """The lake has offsets that the log has not reached."""

    code = -1
    hint = "The log was restored from an older copy: move the lake table away, or drop it."


class LogDivergedError(ConflictError):
    """The log no longer has the rows that were read or written before."""

    code = 1001
    hint = "The log was restored from an older copy: reopen the cursor, or take a new token."


class RemoteTakenError(ConflictError):
    """The remote storage belongs to another storage, or to another server that took it over."""

    code = -1
    hint = "Restore the newest state from the remote storage, and serve that."


# SequenceError: start again with a new writer id.


class SequenceError(HeadwaterError):
    """The writer is out of sequence and needs a new writer id."""

    code = 31
    hint = "Get a new writer id and start again at sequence 0."


class OutOfOrderSequenceError(SequenceError):
    """A batch does not have the next sequence number."""

    code = 31
    hint = "Get a new writer id and start again at sequence 0."


class DuplicateSequenceError(SequenceError):
    """The batch is already written, but its offset is no longer known."""

    code = 32
    hint = "Treat the batch as written and do not send it again."


class UnknownWriterError(SequenceError):
    """The server does not know the writer id, or has forgotten it."""

    code = 33
    hint = "Get a new writer id; rows without an answer may already be written."


# RetryLaterError: send the same request again.


class RetryLaterError(HeadwaterError):
    """The same request may succeed later."""

    code = 26
    retriable = True
    hint = "Try again after a while."


class DisconnectedError(RetryLaterError):
    """The connection broke or could not be opened."""

    code = 1
    hint = "Try again; if it keeps failing, check the address and that the server is running."


class ServerUnreachableError(DisconnectedError):
    """No server is listening at the address, or the host name is unknown."""

    hint = "Start the server, for example: headwater serve ./data; or use another address."


class TimedOutError(RetryLaterError):
    """The deadline passed."""

    code = 25
    hint = "A write may have taken effect: read before you repeat it, or allow more time."


class LeaderMissingError(RetryLaterError):
    """The bucket has no leader at the moment."""

    code = 44
    hint = "Try again: a leader is being elected, or the server is coming back."


class NotCoordinatorError(RetryLaterError):
    """The server is not the coordinator at the moment."""

    code = 65
    hint = "Refresh the cluster's metadata and send the request to the coordinator."


class StoppingError(RetryLaterError):
    """The server is shutting down."""

    code = 44
    hint = "Try again when the server is back."


class DiskFullError(RetryLaterError):
    """The server's disk is too full to accept writes."""

    code = 70
    hint = "Free disk space on the server; it accepts writes again by itself."


class LakeCommitUnknownError(RetryLaterError):
    """It is unknown whether a commit to the lake took effect."""

    code = -1
    hint = "Look for the round in the newest snapshots before you repeat it."


class LakeUnreachableError(RetryLaterError):
    """The lake cannot be reached or written."""

    code = -1
    hint = "Check the address of the warehouse or catalog, its credentials and its free space."


class RemoteUnreachableError(RetryLaterError):
    """The remote storage cannot be reached or written."""

    code = -1
    hint = "Check the address of the remote storage, its credentials and its free space."


# AccessError: use other credentials.


class AccessError(HeadwaterError):
    """The caller is not allowed to do this."""

    code = 48
    hint = "Ask an operator for permission, or connect as another user."


class AuthenticationError(AccessError):
    """The credentials are missing or wrong."""

    code = 46
    hint = "Check the user name and password."


class TlsError(AccessError):
    """The other side's certificate is not accepted, or it does not speak TLS."""

    code = -1
    hint = "Check the certificates on both sides, and that the port speaks TLS."


class SecurityDisabledError(AccessError):
    """The listener does not accept credentials."""

    code = 47
    hint = "Connect without a security protocol."


# StorageError: an operator has to look at the disk, the data or the events.


class StorageError(HeadwaterError):
    """The disk or the data needs an operator."""

    code = 10
    hint = "Check the server's disk, then restart the server."


class ServerFaultError(StorageError):
    """The server failed unexpectedly."""

    code = -1
    hint = "Look at the server's log events around this time, and report them."


class KvStorageError(StorageError):
    """The state of a primary-key table is damaged."""

    code = 11
    retriable = True
    hint = "Restart the server to rebuild the state from the log."


class CorruptBatchError(StorageError):
    """A record batch is malformed."""

    code = 14
    retriable = True
    hint = "Write the rows again; if it keeps failing, suspect the writer or the disk."


class CorruptFileError(StorageError):
    """A file on disk is corrupt."""

    code = 10
    hint = "Restore the file from a backup."


class DamagedRangeError(StorageError):
    """The requested offsets are in a damaged segment that was set aside."""

    code = 10
    hint = "Restore the file from a backup, or continue after the damaged range."


class BucketFencedError(StorageError):
    """The bucket stopped accepting writes after a disk error."""

    code = 10
    hint = "Check the disk, then restart the server."


class DirectoryLostError(StorageError):
    """A data directory was moved, deleted or taken over while in use."""

    code = 10
    hint = "Find out which directory has the data and who has it open, then start again."
