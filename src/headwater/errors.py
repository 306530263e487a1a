"""Every error of Headwater, in one tree sorted by what the caller should do.

    HeadwaterError
    ├── RequestError         change the request: it can never succeed as it is
    │   ├── InvalidNameError, InvalidTableError, InvalidOptionError, InvalidAlterError,
    │   │   InvalidPartitionError, NotPartitionedError, InvalidProjectionError,
    │   │   InvalidAcksError, InvalidTimestampError, RecordTooLargeError, UnsupportedError,
    │   │   OffsetOutOfRangeError, NotPrimaryKeyTableError, InvalidTargetColumnError,
    │   │   DeletionDisabledError, InvalidScanError, InvalidValueError, ValueOverflowError
    ├── MissingError         create the thing first, or name another
    │   ├── DatabaseMissingError, TableMissingError, PartitionMissingError,
    │   │   SchemaMissingError, BucketMissingError, LakeMissingError, ScannerMissingError,
    │   │   ScannerExpiredError
    ├── ConflictError        the thing is there already, or in the way
    │   ├── DatabaseExistsError, DatabaseNotEmptyError, TableExistsError,
    │   │   PartitionExistsError, PartitionLimitError, BucketLimitError, ScannerLimitError,
    │   │   NumbersExhaustedError, DirectoryInUseError
    ├── SequenceError        the writer lost its place: take a new writer id
    │   ├── OutOfOrderSequenceError
    ├── RetryLaterError      nothing is wrong with the request: send it again
    │   ├── StoppingError, BackpressureError
    ├── AccessError          present other credentials
    │   ├── AuthenticationError, SecurityDisabledError
    └── StorageError         an operator has to look at disk or data
        ├── CorruptBatchError, CorruptFileError, DamagedRangeError, BucketFencedError,
            KvStorageError

Each class carries the wire code that Fluss clients understand.
"""

from typing import ClassVar


class HeadwaterError(Exception):
    """Be the root of all errors raised on purpose."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".rstrip())
        self.message = message
        self.hint = hint


class RequestError(HeadwaterError):
    """Tell that the request can never succeed as it is."""

    code = 15


class InvalidNameError(RequestError):
    """Tell that a database or table name is not allowed."""

    code = 16


class InvalidTableError(RequestError):
    """Tell that a table description contradicts itself or the rules."""

    code = 15


class InvalidOptionError(RequestError):
    """Tell which option is unknown, malformed or out of range."""

    code = 39


class InvalidAlterError(RequestError):
    """Tell that a table cannot be changed in this way."""

    code = 56


class InvalidPartitionError(RequestError):
    """Tell that a partition specification does not fit its table."""

    code = 43


class NotPartitionedError(RequestError):
    """Tell that a partition was named for a table without partitions."""

    code = 37


class InvalidProjectionError(RequestError):
    """Tell that the projected columns do not fit the schema."""

    code = 34


class InvalidAcksError(RequestError):
    """Tell that `acks` is none of -1, 0 and 1."""

    code = 18


class InvalidTimestampError(RequestError):
    """Tell that a timestamp lies in the future."""

    code = 38


class RecordTooLargeError(RequestError):
    """Tell that a batch is over the limit."""

    code = 13


class UnsupportedError(RequestError):
    """Tell that an API, version or feature is not served here."""

    code = 2


class OffsetOutOfRangeError(RequestError):
    """Tell that an offset lies before the log start or after its end."""

    code = 19


class NotPrimaryKeyTableError(RequestError):
    """Tell that a key operation was asked of a log table."""

    code = 20


class InvalidTargetColumnError(RequestError):
    """Tell that the columns of a partial update do not fit the table."""

    code = 35


class DeletionDisabledError(RequestError):
    """Tell that the table refuses deletes."""

    code = 57


class InvalidScanError(RequestError):
    """Tell that a call of a scan contradicts itself or the calls before it."""

    code = 68


class InvalidValueError(RequestError):
    """Tell that a column cannot hold a value, such as a null where none is allowed."""

    code = 15


class ValueOverflowError(RequestError):
    """Tell that a merged value does not fit its column."""

    code = 15


class MissingError(HeadwaterError):
    """Tell that something named in the request does not exist."""

    code = 7


class DatabaseMissingError(MissingError):
    """Tell that the database does not exist."""

    code = 4


class TableMissingError(MissingError):
    """Tell that the table does not exist."""

    code = 7


class PartitionMissingError(MissingError):
    """Tell that the partition does not exist."""

    code = 36


class SchemaMissingError(MissingError):
    """Tell that the table has no such schema version."""

    code = 9


class BucketMissingError(MissingError):
    """Tell that the table or bucket id is unknown; clients refresh their metadata."""

    code = 21
    retriable = True


class LakeMissingError(MissingError):
    """Tell that no lake is configured for the table."""

    code = 40


class ScannerMissingError(MissingError):
    """Tell that the server knows no such scanner; start the scan again."""

    code = 67


class ScannerExpiredError(MissingError):
    """Tell that a scanner was closed because nobody used it; start the scan again."""

    code = 66


class ConflictError(HeadwaterError):
    """Tell that something is in the way."""

    code = 8


class DatabaseExistsError(ConflictError):
    """Tell that the database exists already."""

    code = 6


class DatabaseNotEmptyError(ConflictError):
    """Tell that the database still holds tables."""

    code = 5


class TableExistsError(ConflictError):
    """Tell that the table exists already."""

    code = 8


class PartitionExistsError(ConflictError):
    """Tell that the partition exists already."""

    code = 42


class PartitionLimitError(ConflictError):
    """Tell that the table has as many partitions as it may have."""

    code = 45


class BucketLimitError(ConflictError):
    """Tell that a table asks for more buckets than it may have."""

    code = 49


class ScannerLimitError(ConflictError):
    """Tell that as many scans are open as there may be."""

    code = 69


class NumbersExhaustedError(ConflictError):
    """Tell that an auto-increment column has no number left that fits its type."""

    code = 15


class DirectoryInUseError(ConflictError):
    """Tell that another process holds the data directory."""

    code = -1


class SequenceError(HeadwaterError):
    """Tell that a writer lost its place and needs a new writer id."""

    code = 31


class OutOfOrderSequenceError(SequenceError):
    """Tell that a batch sequence is not the one after the last."""

    code = 31


class RetryLaterError(HeadwaterError):
    """Tell that the same request may succeed later."""

    code = 26
    retriable = True


class StoppingError(RetryLaterError):
    """Tell that the server is going down."""

    code = 44


class BackpressureError(RetryLaterError):
    """Tell that writes come faster than they can be stored."""

    code = 72


class AccessError(HeadwaterError):
    """Tell that the caller may not do this."""

    code = 48


class AuthenticationError(AccessError):
    """Tell that the credentials are missing or wrong."""

    code = 46


class SecurityDisabledError(AccessError):
    """Tell that this listener takes no credentials."""

    code = 47


class StorageError(HeadwaterError):
    """Tell that disk or data need an operator."""

    code = 10


class CorruptBatchError(StorageError):
    """Tell that a record batch is malformed."""

    code = 14


class CorruptFileError(StorageError):
    """Tell that a file on disk does not hold what it should."""

    code = 10


class DamagedRangeError(StorageError):
    """Tell that the asked offsets lie in a segment that was set aside."""

    code = 10


class BucketFencedError(StorageError):
    """Tell that a bucket stopped taking writes after a disk error."""

    code = 10


class KvStorageError(StorageError):
    """Tell that the state of a primary-key table does not hold what it should."""

    code = 11


def error_of_code(code: int, message: str) -> HeadwaterError:
    """Return the error for a code that came over the wire."""
    return _BY_CODE.get(code, HeadwaterError)(message)


def _descendants(root: type[HeadwaterError]) -> list[type[HeadwaterError]]:
    children = root.__subclasses__()
    return [*children, *(each for child in children for each in _descendants(child))]


def _by_code() -> dict[int, type[HeadwaterError]]:
    """Where several share a code the deepest class wins, and among those the first."""
    found: dict[int, type[HeadwaterError]] = {}
    deepest_first = sorted(
        _descendants(HeadwaterError), key=lambda kind: len(kind.__mro__), reverse=True
    )
    for kind in deepest_first:
        found.setdefault(kind.code, kind)
    return found


_BY_CODE = _by_code()
