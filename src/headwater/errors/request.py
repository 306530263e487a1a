"""Errors that ask the caller to change the request."""

from headwater.errors.root import HeadwaterError


class RequestError(HeadwaterError):
    """Tell that the request can never succeed as it is."""

    code = 15
    hint = "Change the request; sending it again as it is does not help."


class InvalidNameError(RequestError):
    """Tell that a database or table name is not allowed."""

    code = 16
    hint = "Use letters, digits, '_' and '-' only, and do not begin with '__'."


class InvalidTableError(RequestError):
    """Tell that a table description contradicts itself or the rules."""

    code = 15
    hint = "Change the description of the table, or the operation that does not fit it."


class InvalidOptionError(RequestError):
    """Tell which option is unknown, malformed or out of range."""

    code = 39
    hint = "Look the option up in the reference, and give a value of the kind it takes."


class InvalidAlterError(RequestError):
    """Tell that a table cannot be changed in this way."""

    code = 56
    hint = "Make a new table if the change is needed, and copy the rows."


class InvalidReplicationError(RequestError):
    """Tell that a table asks for more copies than there are servers."""

    code = 17
    hint = "Lower the replication factor of the table, or start more tablet servers."


class InvalidPartitionError(RequestError):
    """Tell that a partition specification does not fit its table."""

    code = 43
    hint = "Give one text for each partition key of the table."


class NotPartitionedError(RequestError):
    """Tell that a partition was named for a table without partitions."""

    code = 37
    hint = "Leave the partition out."


class InvalidProjectionError(RequestError):
    """Tell that the projected columns do not fit the schema."""

    code = 34
    hint = "Name columns that the table has, each once."


class InvalidAcksError(RequestError):
    """Tell that `acks` is none of -1, 0 and 1."""

    code = 18
    hint = "Use -1 to wait until the rows are safe."


class InvalidTimestampError(RequestError):
    """Tell that a timestamp lies in the future."""

    code = 38
    hint = "Ask for a time that has passed, or for the latest offset."


class InvalidProducerError(RequestError):
    """Tell that the name of a producer is not allowed."""

    code = 63
    hint = "Use a short name of letters, digits, '_' and '-'."


class RecordTooLargeError(RequestError):
    """Tell that a batch is over the limit."""

    code = 13
    hint = "Write fewer rows at a time."


class UnsupportedError(RequestError):
    """Tell that an API, version or feature is not served here."""

    code = 2
    hint = "Do without the feature, or use a server of a version that has it."


class RemoteLogError(UnsupportedError):
    """Tell that rows which a cluster keeps in its remote store cannot be read there."""

    code = 2
    hint = "Give this machine access to that store, or start at a later offset."


class OffsetOutOfRangeError(RequestError):
    """Tell that an offset lies before the log start or after its end."""

    code = 19
    hint = "Read from the earliest or the latest offset."


class NotPrimaryKeyTableError(RequestError):
    """Tell that a key operation was asked of a log table."""

    code = 20
    hint = "Append to and scan the table, or make one with a primary key."


class InvalidTargetColumnError(RequestError):
    """Tell that the columns of a partial update do not fit the table."""

    code = 35
    hint = "Name every primary-key column, and others that may be null."


class DeletionDisabledError(RequestError):
    """Tell that the table refuses deletes."""

    code = 57
    hint = "Set 'table.delete.behavior' to allow if rows are to be deleted."


class InvalidScanError(RequestError):
    """Tell that a call of a scan contradicts itself or the calls before it."""

    code = 68
    hint = "Start the scan again."


class InvalidValueError(RequestError):
    """Tell that a column cannot hold a value, such as a null where none is allowed."""

    code = 15
    hint = "Change the value, or make a column that can hold it."


class ValueOverflowError(RequestError):
    """Tell that a merged value does not fit its column."""

    code = 15
    hint = "Make a column of a wider type."


class ClosedError(RequestError):
    """Tell that the client or the storage was closed before the call."""

    code = -1
    hint = "Open it again, or close it later."


class InvalidTokenError(RequestError):
    """Tell that a token is none, was cut or changed, or belongs to another table."""

    code = 15
    hint = "Use a token as `view.token()` returned it, for the table that it was taken of."
