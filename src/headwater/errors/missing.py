"""Errors that ask the caller to create something, or to name another."""

from headwater.errors.root import HeadwaterError


class MissingError(HeadwaterError):
    """Tell that something named in the request does not exist."""

    code = 7
    hint = "Create it first, or name another."


class DatabaseMissingError(MissingError):
    """Tell that the database does not exist."""

    code = 4
    hint = "Create the database, or look at the list of databases."


class TableMissingError(MissingError):
    """Tell that the table does not exist."""

    code = 7
    hint = "Create the table, or look at the list of tables of the database."


class PartitionMissingError(MissingError):
    """Tell that the partition does not exist."""

    code = 36
    hint = "Create the partition, or look at the list of partitions of the table."


class SchemaMissingError(MissingError):
    """Tell that the table has no such schema version, or not yet."""

    code = 9
    retriable = True
    hint = "Send it again: a new version takes a moment to reach every server."


class BucketMissingError(MissingError):
    """Tell that the table or bucket id is unknown; clients refresh their metadata."""

    code = 21
    retriable = True
    hint = "Send it again after asking for the table's metadata; it may have been dropped."


class LakeMissingError(MissingError):
    """Tell that no lake is configured for the table."""

    code = 40
    hint = "Configure a lake on the server, or read the table without it."


class SnapshotMissingError(MissingError):
    """Tell that there is no such snapshot of a bucket's rows."""

    code = 41
    hint = "Ask for the latest snapshot, or read the log from its start."


class LakeSnapshotMissingError(MissingError):
    """Tell that the table has no such snapshot in the lake."""

    code = 53
    hint = "Wait until the table was tiered once, or ask for the latest snapshot."


class ScannerMissingError(MissingError):
    """Tell that the server knows no such scanner; start the scan again."""

    code = 67
    hint = "Start the scan again."


class ScannerExpiredError(MissingError):
    """Tell that a scanner was closed because nobody used it; start the scan again."""

    code = 66
    hint = "Start the scan again, and read on before the server forgets it."


class ServerMissingError(MissingError):
    """Tell that the cluster has no server with this id."""

    code = 58
    hint = "Look at the list of servers of the cluster."


class ServerTagMissingError(MissingError):
    """Tell that a server does not carry the tag."""

    code = 60
    hint = "Look at the tags of the server."


class RebalanceMissingError(MissingError):
    """Tell that no rebalance is under way."""

    code = 62
    hint = "Start one, or take it as finished."


class PositionMissingError(MissingError):
    """Tell that a table cannot be read any more as it was at a position."""

    code = 53
    hint = "Read a later position. Log and snapshots are kept as long as the table's options say."
