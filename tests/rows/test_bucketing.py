import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rows.buckets import BucketFunction, buckets_of
from headwater.rows.row_bytes import RowBytes
from tests.cases import cases

ALL = 2**32 - 1
UUID = b"2bb87d68-baf9-4e64-90f9-f80910419fa6"
FOX = b"The quick brown fox jumps over the lazy dog"
# What the tests of Apache Fluss expect of each function.
FACTS = {
    BucketFunction.FLUSS: (1, 0, 6, 6),
    BucketFunction.FLUSS_UNSIGNED: (1, 0, 6, 6),
    BucketFunction.PAIMON: (1, 11, 12, 0),
    BucketFunction.PAIMON_UNSIGNED: (1, 11, 12, 0),
    BucketFunction.ICEBERG: (3, 4, 12, 3),
}
NATIVE = (BucketFunction.FLUSS, BucketFunction.PAIMON)
CASES = ((bytes((0, 10)), 7), (bytes((0, 10, 10, 10)), 12), (UUID, 16), (FOX, 8))


def rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & ALL


def mixed(word: int) -> int:
    return rotated(word * 0xCC9E2D51 & ALL, 15) * 0x1B873593 & ALL


def stepped(hashed: int, word: int) -> int:
    return (rotated(hashed ^ mixed(word), 13) * 5 + 0xE6546B64) & ALL


def finished(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & ALL
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & ALL
    return hashed ^ hashed >> 16


def signed(number: int) -> int:
    return number - 2**32 if number >= 2**31 else number


def words_of(key: bytes) -> tuple[list[int], bytes]:
    whole = len(key) // 4 * 4
    words = [int.from_bytes(key[at : at + 4], "little") for at in range(0, whole, 4)]
    return words, key[whole:]


UNSIGNED = (BucketFunction.FLUSS_UNSIGNED, BucketFunction.PAIMON_UNSIGNED)


def flink_murmur(key: bytes, *, is_signed: bool) -> int:
    hashed = 42
    words, rest = words_of(key)
    for byte in rest:
        words.append((byte - 256 if is_signed and byte > 127 else byte) & ALL)
    for word in words:
        hashed = stepped(hashed, word)
    return finished(hashed ^ len(key))


def guava_murmur(key: bytes) -> int:
    hashed = 0
    words, rest = words_of(key)
    for word in words:
        hashed = stepped(hashed, word)
    return finished(hashed ^ mixed(int.from_bytes(rest, "little")) ^ len(key))


def expected(key: bytes, count: int, function: BucketFunction) -> int:
    if function is BucketFunction.ICEBERG:
        return (guava_murmur(key) & 0x7FFF_FFFF) % count
    hashed = flink_murmur(key, is_signed=function not in UNSIGNED)
    if function in (BucketFunction.PAIMON, BucketFunction.PAIMON_UNSIGNED):
        return abs(signed(hashed)) % count
    again = signed(finished(stepped(0, hashed) ^ 4))
    return 0 if again == -(2**31) else abs(again) % count


@cases("function", BucketFunction)
def test_keys_go_where_fluss_says_in_its_own_tests(function):
    found = tuple(
        int(buckets_of(RowBytes.of([key]), count, function=function)[0]) for key, count in CASES
    )

    assert found == FACTS[function]


# Computed by Apache Fluss's own classes: bytes after the last whole word have a sign there.
@cases(
    ("key", "fluss", "paimon"),
    [
        (b"\xac\x02", 325, 220),
        (b"\x80", 766, 899),
        (b"\x01\x02\x03\x04\xff\xfe", 644, 767),
        (b"\xff\xff\xff\xff", 581, 387),
    ],
)
def test_bytes_after_the_last_word_are_signed_as_in_java(key, fluss, paimon):
    keys = RowBytes.of([key])

    found = [buckets_of(keys, 1000, function=each)[0] for each in NATIVE]

    assert found == [fluss, paimon]


@pytest.mark.parametrize("function", BucketFunction)
@given(st.lists(st.binary(min_size=1, max_size=30)), st.integers(1, 2**31 - 1))
def test_all_keys_at_once_go_where_each_goes_alone(function, keys, count):
    found = buckets_of(RowBytes.of(keys), count, function=function)

    assert found.tolist() == [expected(key, count, function) for key in keys]


@cases("function", BucketFunction)
def test_keys_that_fill_several_blocks_go_where_each_goes_alone(function):
    keys = [str(number**5).encode() for number in range(40_000)]

    found = buckets_of(RowBytes.of(keys), 16, function=function)

    sample = range(0, len(keys), 997)
    assert [int(found[i]) for i in sample] == [expected(keys[i], 16, function) for i in sample]


@cases("function", BucketFunction)
def test_a_very_long_key_among_short_ones_goes_where_it_goes_alone(function):
    keys = [b"a", bytes(range(256)) * 1200, b"abcd"]

    found = buckets_of(RowBytes.of(keys), 1000, function=function)

    assert found.tolist() == [expected(key, 1000, function) for key in keys]


def test_keys_spread_over_all_buckets():
    keys = RowBytes.of([str(number).encode() for number in range(16_000)])

    counts = np.bincount(buckets_of(keys, 16, function=BucketFunction.FLUSS))

    assert len(counts) == 16
    assert counts.min() > 800
