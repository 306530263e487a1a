"""Ids of writers: those that a server hands out, and those that sinks compute.

An id that was handed out is a block and a number in it. Blocks are drawn at random, for one user
and one start of the storage, so that no id is handed out twice: not by a restart, not by a copy of
the directory that is started elsewhere. Sinks compute their ids, so that every attempt has the
same; a bit tells those apart.
"""

NUMBER_BITS = 24
BLOCK_MIN, BLOCK_END = 1, 1 << 38
"""Blocks begin at 1, as earlier versions handed out small numbers, which make up block 0."""
COMPUTED_BIT = 1 << (NUMBER_BITS + 38)


def is_computed(writer_id: int) -> bool:
    """Tell whether a sink computed an id."""
    return bool(writer_id & COMPUTED_BIT) and writer_id > 0


def block_of(writer_id: int) -> int:
    """Return the block of an id that was handed out."""
    return writer_id >> NUMBER_BITS
