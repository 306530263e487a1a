"""Errors that ask a writer to begin anew with another writer id."""

from headwater.errors.root import HeadwaterError


class SequenceError(HeadwaterError):
    """Tell that a writer lost its place and needs a new writer id."""

    code = 31
    hint = "Take a new writer id and start at 0."


class OutOfOrderSequenceError(SequenceError):
    """Tell that a batch sequence is not the one after the last."""

    code = 31
    hint = "Take a new writer id and start at 0."


class DuplicateSequenceError(SequenceError):
    """Tell that a batch was written before, too long ago to say where."""

    code = 32
    hint = "Take the batch as written, and do not send it again."


class UnknownWriterError(SequenceError):
    """Tell that the server has forgotten the writer, or never knew it."""

    code = 33
    hint = "Take a new writer id and start at 0; rows without an answer may be there already."
