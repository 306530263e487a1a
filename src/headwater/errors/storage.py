"""Errors that ask an operator to look at a server's disk, data or log."""

from headwater.errors.root import HeadwaterError


class StorageError(HeadwaterError):
    """Tell that disk or data need an operator."""

    code = 10
    hint = "Check the disk of the server, then restart it."


class ServerFaultError(StorageError):
    """Tell that the server failed in a way that it did not expect."""

    code = -1
    hint = "Look at the events of the server around this time, and report what is there."


class LogStorageError(StorageError):
    """Tell that a server could not read or write the log of a bucket."""

    code = 10
    retriable = True
    hint = "Check the disk of the server; another try may reach another leader."


class KvStorageError(StorageError):
    """Tell that the state of a primary-key table does not hold what it should."""

    code = 11
    retriable = True
    hint = "Restart the server to rebuild the state from the log."


class CorruptBatchError(StorageError):
    """Tell that a record batch is malformed."""

    code = 14
    retriable = True
    hint = "Write the rows again; if this goes on, the writer or the disk is at fault."


class CorruptFileError(StorageError):
    """Tell that a file on disk does not hold what it should."""

    code = 10
    hint = "Restore the file from a copy."


class DamagedRangeError(StorageError):
    """Tell that the asked offsets lie in a segment that was set aside."""

    code = 10
    hint = "Restore the file from a copy, or go on after the damage."


class BucketFencedError(StorageError):
    """Tell that a bucket stopped taking writes after a disk error."""

    code = 10
    hint = "Check the disk, then restart the server."


class DirectoryLostError(StorageError):
    """Tell that a data directory was moved, deleted or taken by another process while in use."""

    code = 10
    hint = "See which directory holds the data and who else has it open, then start again."
