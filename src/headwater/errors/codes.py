"""Error codes of the wire, and the errors that only other servers send.

A code becomes the class that declares it. Where several classes share a code, `_MEANT` says which
one the protocol means; where several codes mean the same to a caller, `_ALIASES` maps them to one
class.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from headwater.errors import tree

# This server never sends these: they arrive from servers of a Fluss cluster.


class InvalidReplicationError(tree.RequestError):
    """The table wants more replicas than there are servers."""

    code = 17
    hint = "Lower the replication factor of the table, or start more tablet servers."


class InvalidProducerError(tree.RequestError):
    """A producer name is not allowed."""

    code = 63
    hint = "Use a short name of letters, digits, '_' and '-'."


class ServerMissingError(tree.MissingError):
    """The cluster has no server with this id."""

    code = 58
    hint = "List the servers of the cluster to find the right id."


class ServerTagMissingError(tree.MissingError):
    """The server does not have the tag."""

    code = 60
    hint = "Look at the tags of the server."


class RebalanceMissingError(tree.MissingError):
    """No rebalance is running."""

    code = 62
    hint = "Start one, or treat it as finished."


class LakeTableExistsError(tree.ConflictError):
    """The lake already has a table of this name."""

    code = 54
    hint = "Move the lake table away, or choose another name."


class CapacityError(tree.ConflictError):
    """The cluster has no capacity for more buckets with a primary key."""

    code = 71
    hint = "Add tablet servers, or use fewer buckets."


class NotAttemptedError(tree.ConflictError):
    """The server gave up before it got to this part of the request."""

    code = 27
    hint = "Look at the part that failed, then send the rest again."


class StaleEpochError(tree.ConflictError):
    """A newer leader or coordinator has taken over from the sender."""

    code = 24
    hint = "Refresh the cluster's metadata, then decide again."


class ServerTagExistsError(tree.ConflictError):
    """The server already has another tag."""

    code = 59
    hint = "Remove that tag first."


class RebalanceError(tree.ConflictError):
    """A rebalance failed, or another one is running."""

    code = 61
    hint = "Wait until it ends, then start it again."


class NotLeaderError(tree.RetryLaterError):
    """The server is not the leader of the bucket."""

    code = 12
    hint = "Refresh the table's metadata and send the request to the leader."


class TooFewReplicasError(tree.RetryLaterError):
    """The bucket has fewer replicas in sync than it needs."""

    code = 29
    hint = "Try again; if it keeps failing, check that all servers are running."


class BackpressureError(tree.RetryLaterError):
    """Writes arrive faster than they can be stored."""

    code = 72
    hint = "Try again after a while, and write more slowly."


class DamagedMessageError(tree.RetryLaterError):
    """A message was damaged in transit."""

    code = 3
    hint = "Try again; if it keeps failing, check the network."


class AuthenticationBusyError(tree.RetryLaterError):
    """Credentials cannot be checked at the moment."""

    code = 51
    hint = "Try again with the same credentials."


class SecurityTokenError(tree.AccessError):
    """No token for the remote storage is available."""

    code = 30
    hint = "Ask an operator to check the cluster's storage credentials."


class LogStorageError(tree.StorageError):
    """The server could not read or write the log of a bucket."""

    code = 10
    retriable = True
    hint = "Check the server's disk; a retry may reach another leader."


# No server sends these: jobs of pipelines run beside it.


class JobChangedError(tree.ConflictError):
    """A job of this name began with another statement."""

    code = -1
    hint = "Use another name, or begin anew with --restart."


class JobFailedError(tree.RetryLaterError):
    """A streaming job ended with an error."""

    code = -1
    hint = "Run the script again: the job goes on where it stopped."


_ALIASES: Mapping[int, type[tree.HeadwaterError]] = {
    22: StaleEpochError,
    23: StaleEpochError,
    28: TooFewReplicasError,
    52: tree.InvalidOptionError,
    55: StaleEpochError,
    64: tree.InvalidOptionError,
    73: BackpressureError,
}
_MEANT: Mapping[int, type[tree.HeadwaterError]] = {
    kind.code: kind
    for kind in (
        tree.DisconnectedError,
        tree.InvalidTableError,
        tree.LakeSnapshotMissingError,
        tree.LeaderMissingError,
        LogStorageError,
        tree.OutOfOrderSequenceError,
        tree.ServerFaultError,
        tree.TableExistsError,
        tree.TableMissingError,
        tree.UnsupportedError,
    )
}
_LEADER_MOVED = (
    tree.BucketMissingError,
    tree.DisconnectedError,
    tree.KvStorageError,
    tree.LeaderMissingError,
    LogStorageError,
    NotLeaderError,
    tree.StoppingError,
)


def _tree(kind: type[tree.HeadwaterError]) -> Iterator[type[tree.HeadwaterError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _tree(below)


BY_CODE: Mapping[int, type[tree.HeadwaterError]] = MappingProxyType(
    {**{kind.code: kind for kind in _tree(tree.HeadwaterError)}, **_MEANT, **_ALIASES}
)


def error_of_code(code: int, message: str) -> tree.HeadwaterError:
    """Turn a code and message from the wire into an error that can be raised."""
    kind = BY_CODE.get(code)
    # Java servers may send a whole stack trace; its first line says what happened.
    # Protobuf returns a text that is not valid UTF-8 as bytes.
    message = f"{message}".strip().partition("\n")[0]
    if kind is None:
        fault = tree.HeadwaterError(f"{message} (code {code})".lstrip())
    else:
        fault = kind(message or f"The server answered with code {code}.")
    fault.code = code
    return fault


def moves_leader(fault: tree.HeadwaterError) -> bool:
    """Tell whether the client has to look up the bucket's leader again after this error."""
    return isinstance(fault, _LEADER_MOVED)
