"""From the codes of the wire to errors."""

from collections.abc import Mapping
from types import MappingProxyType

from headwater.errors.access import (
    AccessError,
    AuthenticationError,
    SecurityDisabledError,
    SecurityTokenError,
)
from headwater.errors.conflict import (
    BucketLimitError,
    CapacityError,
    DatabaseExistsError,
    DatabaseNotEmptyError,
    LakeTableExistsError,
    LogDivergedError,
    NotAttemptedError,
    PartitionExistsError,
    PartitionLimitError,
    RebalanceError,
    ScannerLimitError,
    ServerTagExistsError,
    StaleEpochError,
    TableExistsError,
    TieringFencedError,
)
from headwater.errors.missing import (
    BucketMissingError,
    DatabaseMissingError,
    LakeMissingError,
    LakeSnapshotMissingError,
    PartitionMissingError,
    RebalanceMissingError,
    ScannerExpiredError,
    ScannerMissingError,
    SchemaMissingError,
    ServerMissingError,
    ServerTagMissingError,
    SnapshotMissingError,
    TableMissingError,
)
from headwater.errors.request import (
    DeletionDisabledError,
    InvalidAcksError,
    InvalidAlterError,
    InvalidNameError,
    InvalidOptionError,
    InvalidPartitionError,
    InvalidProducerError,
    InvalidProjectionError,
    InvalidReplicationError,
    InvalidScanError,
    InvalidTableError,
    InvalidTargetColumnError,
    InvalidTimestampError,
    NotPartitionedError,
    NotPrimaryKeyTableError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    UnsupportedError,
)
from headwater.errors.retry_later import (
    AuthenticationBusyError,
    BackpressureError,
    DamagedMessageError,
    DisconnectedError,
    DiskFullError,
    LeaderMissingError,
    NotCoordinatorError,
    NotLeaderError,
    RetryLaterError,
    StoppingError,
    TimedOutError,
    TooFewReplicasError,
)
from headwater.errors.root import (
    HeadwaterError,
)
from headwater.errors.sequence import (
    DuplicateSequenceError,
    OutOfOrderSequenceError,
    UnknownWriterError,
)
from headwater.errors.storage import (
    CorruptBatchError,
    KvStorageError,
    LogStorageError,
    ServerFaultError,
)

# Several errors of ours share a code where Fluss has one for all of them: here stands the one that
# Fluss means by it. Codes that only servers send each other share a class.
BY_CODE: Mapping[int, type[HeadwaterError]] = MappingProxyType(
    {
        -1: ServerFaultError,
        1: DisconnectedError,
        2: UnsupportedError,
        3: DamagedMessageError,
        4: DatabaseMissingError,
        5: DatabaseNotEmptyError,
        6: DatabaseExistsError,
        7: TableMissingError,
        8: TableExistsError,
        9: SchemaMissingError,
        10: LogStorageError,
        11: KvStorageError,
        12: NotLeaderError,
        13: RecordTooLargeError,
        14: CorruptBatchError,
        15: InvalidTableError,
        16: InvalidNameError,
        17: InvalidReplicationError,
        18: InvalidAcksError,
        19: OffsetOutOfRangeError,
        20: NotPrimaryKeyTableError,
        21: BucketMissingError,
        22: StaleEpochError,
        23: StaleEpochError,
        24: StaleEpochError,
        25: TimedOutError,
        26: RetryLaterError,
        27: NotAttemptedError,
        28: TooFewReplicasError,
        29: TooFewReplicasError,
        30: SecurityTokenError,
        31: OutOfOrderSequenceError,
        32: DuplicateSequenceError,
        33: UnknownWriterError,
        34: InvalidProjectionError,
        35: InvalidTargetColumnError,
        36: PartitionMissingError,
        37: NotPartitionedError,
        38: InvalidTimestampError,
        39: InvalidOptionError,
        40: LakeMissingError,
        41: SnapshotMissingError,
        42: PartitionExistsError,
        43: InvalidPartitionError,
        44: LeaderMissingError,
        45: PartitionLimitError,
        46: AuthenticationError,
        47: SecurityDisabledError,
        48: AccessError,
        49: BucketLimitError,
        50: TieringFencedError,
        51: AuthenticationBusyError,
        52: InvalidOptionError,
        53: LakeSnapshotMissingError,
        54: LakeTableExistsError,
        55: StaleEpochError,
        56: InvalidAlterError,
        57: DeletionDisabledError,
        58: ServerMissingError,
        59: ServerTagExistsError,
        60: ServerTagMissingError,
        61: RebalanceError,
        62: RebalanceMissingError,
        63: InvalidProducerError,
        64: InvalidOptionError,
        65: NotCoordinatorError,
        66: ScannerExpiredError,
        67: ScannerMissingError,
        68: InvalidScanError,
        69: ScannerLimitError,
        70: DiskFullError,
        71: CapacityError,
        72: BackpressureError,
        73: BackpressureError,
        # Our own; only those who send an incarnation get it.
        LogDivergedError.code: LogDivergedError,
    }
)
_LEADER_MOVED = (
    BucketMissingError,
    DisconnectedError,
    KvStorageError,
    LeaderMissingError,
    LogStorageError,
    NotLeaderError,
    StoppingError,
)


def error_of_code(code: int, message: str) -> HeadwaterError:
    """Return the error for a code that came over the wire, with the other side's message."""
    kind = BY_CODE.get(code)
    # A server in Java may send a whole stack trace, of which the first line says what happened.
    message = message.strip().partition("\n")[0]
    if kind is None:
        fault = HeadwaterError(f"{message} (code {code})".lstrip())
    else:
        fault = kind(message or f"The server answered with code {code}.")
    fault.code = code
    return fault


def moves_leader(fault: HeadwaterError) -> bool:
    """Tell whether the bucket's leader must be asked for again after this error."""
    return isinstance(fault, _LEADER_MOVED)
