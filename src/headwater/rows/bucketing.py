"""Which bucket each key goes to, as Apache Fluss and the lake formats reckon it."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial

import numpy as np
import numpy.typing as npt

from headwater.rows.murmur import (
    Hashes,
    finish,
    mix_word,
    murmur3_32,
    murmur_by_bytes,
    spread,
)
from headwater.rows.row_bytes import RowBytes

Buckets = npt.NDArray[np.int32]

_FLINK_SEED = 42
_ICEBERG_SEED = 0
_WORD_BYTES = np.uint32(4)
_SIGN = np.uint32(0x8000_0000)


class BucketFunction(StrEnum):
    """Name the ways to find the bucket of a key.

    The client of Apache Fluss in Java takes the last bytes of a key for signed numbers, and its
    client in Rust, under pyfluss, for unsigned ones.
    """

    FLUSS = "fluss"
    FLUSS_UNSIGNED = "fluss-unsigned"
    PAIMON = "paimon"
    PAIMON_UNSIGNED = "paimon-unsigned"
    ICEBERG = "iceberg"


def buckets_of(keys: RowBytes, count: int, *, function: BucketFunction) -> Buckets:
    """Return the bucket of every key, from 0 to just below the count of buckets."""
    return _FUNCTIONS[function](keys, count)


def _fluss(keys: RowBytes, count: int, *, signed: bool = True) -> Buckets:
    hashes = mix_word(murmur_by_bytes(keys, seed=_FLINK_SEED, signed=signed))
    spread(hashes)
    hashes ^= _WORD_BYTES
    finish(hashes)
    # The one number whose sign cannot be taken off stands for 0.
    hashes[hashes == _SIGN] = 0
    return _remainders(np.abs(hashes.view(np.int32)).view(np.uint32), count)


def _paimon(keys: RowBytes, count: int, *, signed: bool = True) -> Buckets:
    hashes = murmur_by_bytes(keys, seed=_FLINK_SEED, signed=signed).view(np.int32)
    # The remainder has the sign of the hash, and is small enough to lose it.
    return np.abs(np.fmod(hashes, np.int32(count)))


def _iceberg(keys: RowBytes, count: int) -> Buckets:
    return _remainders(murmur3_32(keys, seed=_ICEBERG_SEED) & ~_SIGN, count)


def _remainders(hashes: Hashes, count: int) -> Buckets:
    return np.remainder(hashes, np.uint32(count)).view(np.int32)


_FUNCTIONS: dict[BucketFunction, Callable[[RowBytes, int], Buckets]] = {
    BucketFunction.FLUSS: _fluss,
    BucketFunction.FLUSS_UNSIGNED: partial(_fluss, signed=False),
    BucketFunction.PAIMON: _paimon,
    BucketFunction.PAIMON_UNSIGNED: partial(_paimon, signed=False),
    BucketFunction.ICEBERG: _iceberg,
}
