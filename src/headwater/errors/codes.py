"""Error codes of the wire, and the errors that only other servers send.

A code becomes the class that declares it. Where several classes share a code, `_MEANT` says which
one the protocol means; where several codes mean the same to a caller, `_ALIASES` maps them to one
class.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from headwater.errors.tree import (
    AccessError,
    BucketMissingError,
    ConflictError,
    DisconnectedError,
    HeadwaterError,
    InvalidOptionError,
    InvalidTableError,
    KvStorageError,
    LakeSnapshotMissingError,
    LeaderMissingError,
    MissingError,
    OutOfOrderSequenceError,
    RequestError,
    RetryLaterError,
    ServerFaultError,
    StoppingError,
    StorageError,
    TableExistsError,
    TableMissingError,
    UnsupportedError,
)

# This server never sends these: they arrive from servers of a Fluss cluster.


class InvalidReplicationError(RequestError):
    """The table wants more replicas than there are servers."""

    code = 17
    hint = "Lower the replication factor of the table, or start more tablet servers."


class InvalidProducerError(RequestError):
    """A producer name is not allowed."""

    code = 63
    hint = "Use a short name of letters, digits, '_' and '-'."


class ServerMissingError(MissingError):
    """The cluster has no server with this id."""

    code = 58
    hint = "List the servers of the cluster to find the right id."


class ServerTagMissingError(MissingError):
    """The server does not have the tag."""

    code = 60
    hint = "Look at the tags of the server."


class RebalanceMissingError(MissingError):
    """No rebalance is running."""

    code = 62
    hint = "Start one, or treat it as finished."


class LakeTableExistsError(ConflictError):
    """The lake already has a table of this name."""

    code = 54
    hint = "Move the lake table away, or choose another name."


class CapacityError(ConflictError):
    """The cluster has no capacity for more buckets with a primary key."""

    code = 71
    hint = "Add tablet servers, or use fewer buckets."


class NotAttemptedError(ConflictError):
    """The server gave up before it got to this part of the request."""

    code = 27
    hint = "Look at the part that failed, then send the rest again."


class StaleEpochError(ConflictError):
    """A newer leader or coordinator has taken over from the sender."""

    code = 24
    hint = "Refresh the cluster's metadata, then decide again."


class ServerTagExistsError(ConflictError):
    """The server already has another tag."""

    code = 59
    hint = "Remove that tag first."


class RebalanceError(ConflictError):
    """A rebalance failed, or another one is running."""

    code = 61
    hint = "Wait until it ends, then start it again."


class NotLeaderError(RetryLaterError):
    """The server is not the leader of the bucket."""

    code = 12
    hint = "Refresh the table's metadata and send the request to the leader."


class TooFewReplicasError(RetryLaterError):
    """The bucket has fewer replicas in sync than it needs."""

    code = 29
    hint = "Try again; if it keeps failing, check that all servers are running."


class BackpressureError(RetryLaterError):
    """Writes arrive faster than they can be stored."""

    code = 72
    hint = "Try again after a while, and write more slowly."


class DamagedMessageError(RetryLaterError):
    """A message was damaged in transit."""

    code = 3
    hint = "Try again; if it keeps failing, check the network."


class AuthenticationBusyError(RetryLaterError):
    """Credentials cannot be checked at the moment."""

    code = 51
    hint = "Try again with the same credentials."


class SecurityTokenError(AccessError):
    """No token for the remote storage is available."""

    code = 30
    hint = "Ask an operator to check the cluster's storage credentials."


class LogStorageError(StorageError):
    """The server could not read or write the log of a bucket."""

    code = 10
    retriable = True
    hint = "Check the server's disk; a retry may reach another leader."


_ALIASES: Mapping[int, type[HeadwaterError]] = {
    22: StaleEpochError,
    23: StaleEpochError,
    28: TooFewReplicasError,
    52: InvalidOptionError,
    55: StaleEpochError,
    64: InvalidOptionError,
    73: BackpressureError,
}
_MEANT: Mapping[int, type[HeadwaterError]] = {
    kind.code: kind
    for kind in (
        DisconnectedError,
        InvalidTableError,
        LakeSnapshotMissingError,
        LeaderMissingError,
        LogStorageError,
        OutOfOrderSequenceError,
        ServerFaultError,
        TableExistsError,
        TableMissingError,
        UnsupportedError,
    )
}
_LEADER_MOVED = (
    BucketMissingError,
    DisconnectedError,
    KvStorageError,
    LeaderMissingError,
    LogStorageError,
    NotLeaderError,
    StoppingError,
)


def _tree(kind: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _tree(below)


BY_CODE: Mapping[int, type[HeadwaterError]] = MappingProxyType(
    {**{kind.code: kind for kind in _tree(HeadwaterError)}, **_MEANT, **_ALIASES}
)


def error_of_code(code: int, message: str) -> HeadwaterError:
    """Turn a code and message from the wire into an error that can be raised."""
    kind = BY_CODE.get(code)
    # Java servers may send a whole stack trace; its first line says what happened.
    # Protobuf returns a text that is not valid UTF-8 as bytes.
    message = f"{message}".strip().partition("\n")[0]
    if kind is None:
        fault = HeadwaterError(f"{message} (code {code})".lstrip())
    else:
        fault = kind(message or f"The server answered with code {code}.")
    fault.code = code
    return fault


def moves_leader(fault: HeadwaterError) -> bool:
    """Tell whether the client has to look up the bucket's leader again after this error."""
    return isinstance(fault, _LEADER_MOVED)
