"""Errors after which the same request may succeed."""

from headwater.errors.root import HeadwaterError


class RetryLaterError(HeadwaterError):
    """Tell that the same request may succeed later."""

    code = 26
    retriable = True
    hint = "Send it again after a while."


class DisconnectedError(RetryLaterError):
    """Tell that the connection broke, or could not be made."""

    code = 1
    hint = "Send it again; if this goes on, check the address and whether the server runs."


class ServerUnreachableError(DisconnectedError):
    """Tell that no server listens at the address, or that no host has that name."""

    hint = "Start the server, for example with: headwater serve ./data; or name another address."


class TimedOutError(RetryLaterError):
    """Tell that the deadline passed."""

    code = 25
    hint = "Whether a write took effect is unknown: read before repeating it, or give it more time."


class NotLeaderError(RetryLaterError):
    """Tell that the server does not lead the bucket."""

    code = 12
    hint = "Ask for the table's metadata, and send it to the leader."


class LeaderMissingError(RetryLaterError):
    """Tell that nobody leads the bucket at the moment."""

    code = 44
    hint = "Send it again: a leader is being chosen, or the server is coming back."


class NotCoordinatorError(RetryLaterError):
    """Tell that the server is not the coordinator at the moment."""

    code = 65
    hint = "Ask for the cluster's metadata, and send it to the coordinator."


class TooFewReplicasError(RetryLaterError):
    """Tell that fewer copies of the bucket are in step than it asks for."""

    code = 29
    hint = "Send it again; if this goes on, check that all servers run."


class StoppingError(RetryLaterError):
    """Tell that the server is going down."""

    code = 44
    hint = "Send it again when the server is back."


class BackpressureError(RetryLaterError):
    """Tell that writes come faster than they can be stored."""

    code = 72
    hint = "Send it again after a while, and write more slowly."


class DiskFullError(RetryLaterError):
    """Tell that the disk of a server is too full to take writes."""

    code = 70
    hint = "Free space on the server; then writes go on by themselves."


class DamagedMessageError(RetryLaterError):
    """Tell that a message was damaged on its way."""

    code = 3
    hint = "Send it again; if this goes on, check the network."


class AuthenticationBusyError(RetryLaterError):
    """Tell that credentials cannot be checked at the moment."""

    code = 51
    hint = "Present the same credentials again."


class LakeCommitUnknownError(RetryLaterError):
    """Tell that it is not known whether a commit to the lake took effect."""

    code = -1
    hint = "Look for the round in the newest snapshots before you repeat it."


class LakeUnreachableError(RetryLaterError):
    """Tell that the lake cannot be reached, or does not let itself be written."""

    code = -1
    hint = "Check the address of the warehouse or catalog, its credentials, and free space."
