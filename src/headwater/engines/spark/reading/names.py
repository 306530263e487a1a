"""Buckets and partitions as people write them: `0`, `day=2026-11-16/0`, `day=2026-11-16`."""

from collections.abc import Sequence

from headwater.client.reading.log_batch import Place
from headwater.errors import RequestError
from headwater.model.partition import complete_spec, name_of_spec, spec_of_name

_BETWEEN = "/"
_IS = "="


def place_text(place: Place, keys: Sequence[str]) -> str:
    """Write a bucket, given the partition keys of its table."""
    if place.partition is None:
        return str(place.bucket)
    return f"{partition_text(place.partition, keys)}{_BETWEEN}{place.bucket}"


def place_of(text: str, keys: Sequence[str]) -> Place:
    """Read a bucket, or say how to write one."""
    partition, _, number = text.rpartition(_BETWEEN)
    if not number.isdecimal() or bool(partition) != bool(keys):
        raise RequestError(f"{text!r} names no bucket.", hint=f"Write it as {_example(keys)!r}.")
    return Place(partition_of(partition, keys) if partition else None, int(number))


def partition_text(name: str, keys: Sequence[str]) -> str:
    """Write a partition by the value of each partition key."""
    return _BETWEEN.join(f"{key}{_IS}{value}" for key, value in spec_of_name(name, keys))


def partition_of(text: str, keys: Sequence[str]) -> str:
    """Return the name of a partition that is written by the value of each partition key."""
    pairs = [part.partition(_IS) for part in text.split(_BETWEEN)]
    if not keys or not all(separator for _, separator, _ in pairs):
        example = _example(keys).rpartition(_BETWEEN)[0]
        hint = f"Write it as {example!r}." if keys else "The table has no partitions."
        raise RequestError(f"{text!r} names no partition.", hint=hint)
    spec = {key.strip(): value.strip() for key, _, value in pairs}
    return name_of_spec(complete_spec(spec, keys))


def _example(keys: Sequence[str]) -> str:
    return _BETWEEN.join((*(f"{key}{_IS}…" for key in keys), "0"))
