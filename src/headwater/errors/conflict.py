"""Errors that tell of something that is there already, or in the way."""

from headwater.errors.root import HeadwaterError


class ConflictError(HeadwaterError):
    """Tell that something is in the way."""

    code = 8
    hint = "Take what is there, move it out of the way, or choose another name."


class DatabaseExistsError(ConflictError):
    """Tell that the database exists already."""

    code = 6
    hint = "Use it as it is, or choose another name."


class DatabaseNotEmptyError(ConflictError):
    """Tell that the database still holds tables."""

    code = 5
    hint = "Drop its tables first, or drop it with cascade."


class TableExistsError(ConflictError):
    """Tell that the table exists already."""

    code = 8
    hint = "Use it as it is, drop it first, or choose another name."


class LakeTableExistsError(ConflictError):
    """Tell that the lake holds a table of this name already."""

    code = 54
    hint = "Move the table in the lake out of the way, or choose another name."


class PartitionExistsError(ConflictError):
    """Tell that the partition exists already."""

    code = 42
    hint = "Use it as it is."


class PartitionLimitError(ConflictError):
    """Tell that the table has as many partitions as it may have."""

    code = 45
    hint = "Drop partitions that are not needed, or let them expire."


class BucketLimitError(ConflictError):
    """Tell that a table asks for more buckets than it may have."""

    code = 49
    hint = "Ask for fewer buckets."


class ScannerLimitError(ConflictError):
    """Tell that as many scans are open as there may be."""

    code = 69
    hint = "Close scans that are not needed, or try again later."


class CapacityError(ConflictError):
    """Tell that the cluster has no room for more buckets with a primary key."""

    code = 71
    hint = "Add tablet servers, or ask for fewer buckets."


class NumbersExhaustedError(ConflictError):
    """Tell that an auto-increment column has no number left that fits its type."""

    code = 15
    hint = "Make the table anew with a wider column."


class DirectoryInUseError(ConflictError):
    """Tell that another process holds the data directory."""

    code = -1
    hint = "Stop that process, or connect to it instead of opening the directory."


class CursorLostError(ConflictError):
    """Tell that another member reads the bucket now."""

    code = -1
    hint = "Stop reading the bucket: what was read after the last commit is read again elsewhere."


class EpochDiffersError(ConflictError):
    """Tell that an epoch was begun with other rows than those that came now."""

    code = -1
    hint = "Give the same rows in every attempt, or write them under another sink."


class NotAttemptedError(ConflictError):
    """Tell that the server gave up before it came to this part of the request."""

    code = 27
    hint = "Look at the part that failed, then send the rest again."


class StaleEpochError(ConflictError):
    """Tell that a newer leader or coordinator has taken over from the sender."""

    code = 24
    hint = "Ask for the cluster's metadata, then decide again."


class TieringFencedError(ConflictError):
    """Tell that another tierer has taken the table over."""

    code = 50
    hint = "Stop tiering the table; the other one goes on."


class LakeMovedError(ConflictError):
    """Tell that the lake table has another newest snapshot than the one to build on."""

    code = -1
    hint = "Look at the newest snapshot, then decide again; nothing was committed."


class LakeRewrittenError(ConflictError):
    """Tell that files which a commit refers to were rewritten meanwhile."""

    code = -1
    hint = "Do the round again from the newest snapshot; nothing was committed."


class BoundaryMovedError(ConflictError):
    """Tell that others tiered offsets since the round was planned, or that the table is another."""

    code = -1
    hint = "Plan the round again from the newest snapshot; nothing was committed."


class LakeTableDiffersError(ConflictError):
    """Tell that the lake holds a table of this name with other columns or another layout."""

    code = -1
    hint = "Rename or drop the table in the lake, or turn its columns into those of the table."


class LakeNotAllowedError(ConflictError):
    """Tell that a lake table leads to code, or to a place, that this process may not use."""

    code = -1
    hint = "Remove what the error names from the lake table, or allow it in this process."
    location: str | None = None
    """The place, if it is one."""


class LakeRowsDeletedError(ConflictError):
    """Tell that others took rows out of the lake table that tiering had brought there."""

    code = -1
    hint = "Go back to the lake snapshot before, or have the lake table made anew from the log."


class LogGapError(ConflictError):
    """Tell that the log does not hold any more what comes next in the lake."""

    code = -1
    hint = "Drop the lake table, so that tiering begins anew with what the log still holds."


class LakeAheadError(ConflictError):
    """Tell that the lake holds offsets which the log has not reached."""

    code = -1
    hint = "The log was restored from an older copy: move the lake table away, or drop it."


class LogDivergedError(ConflictError):
    """Tell that a log does not hold the rows any more that were read or written before."""

    code = 1001
    hint = "It was restored from an older copy: open the cursor again, or take a new token."


class ServerTagExistsError(ConflictError):
    """Tell that a server carries another tag already."""

    code = 59
    hint = "Remove that tag first."


class RebalanceError(ConflictError):
    """Tell that a rebalance failed, or that one is under way already."""

    code = 61
    hint = "Wait until it ends, then start it again."
