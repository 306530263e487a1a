"""Bitmaps are united in the bytes that Java's classes read and write."""

import contextlib
import struct

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from headwater.errors import InvalidValueError, UnsupportedError
from headwater.kv.merge import bitmaps
from headwater.kv.merge.bitmaps import art_from_portable, portable_from_art
from headwater.model.types import BytesType
from tests.cases import cases
from tests.kv.merge.tables import Table, folded, table

pyroaring = pytest.importorskip("pyroaring")
AGGREGATION = {"table.merge-engine": "aggregation"}
# Numbers close together, far apart, and around the borders of containers and of 32 bits.
NUMBERS = st.sets(
    st.integers(0, 2**64 - 1)
    | st.integers(0, 300).map(lambda n: n << 16)
    | st.integers(2**32 - 5, 2**32 + 5)
)


def portable64(numbers):
    bitmap = pyroaring.BitMap64(numbers)
    bitmap.run_optimize()
    return bitmap.serialize()


def art(numbers):
    return art_from_portable(portable64(numbers))


@settings(deadline=None)
@given(NUMBERS)
def test_a_bitmap_comes_back_from_the_bytes_of_java(numbers):
    found = pyroaring.BitMap64.deserialize(portable_from_art(art(numbers)))

    assert set(found) == numbers


@cases("child_count", [1, 2, 4, 5, 16, 17, 48, 49, 256])
def test_every_kind_of_node_and_container_comes_back(child_count):
    sparse = {child << 56 | child << 20 | 5 for child in range(child_count)}
    run = set(range(70_000, 80_000))
    dense = set(range(2**40, 2**40 + 65_536, 3))

    found = pyroaring.BitMap64.deserialize(portable_from_art(art(sparse | run | dense)))

    assert set(found) == sparse | run | dense


def test_one_number_is_written_as_java_writes_it():
    leaf = b"\x04\x00\x00\x00" + bytes([0, 0, 0, 0, 0, 1]) + struct.pack("<q", 0)
    container = b"\x01\x02" + struct.pack("<iH", 1, 7)
    tail = struct.pack("<qii", 1, 0, 0)

    expected = b"\x01" + struct.pack("<q", 1) + leaf
    expected += struct.pack("<ib", 1, -2) + struct.pack("<i", 1) + container + tail

    assert art({65536 + 7}) == expected


def test_a_node_packs_its_labels_highest_first_into_words():
    content = art({1 << 16, 2 << 16, 3 << 16})

    assert content[9:22] == b"\x00\x03\x00\x05" + bytes(5) + bytes([0, 3, 2, 1])


def test_an_empty_bitmap_is_one_byte():
    assert art(set()) == b"\x00"
    assert bitmaps.union64(b"\x00", b"\x00") == b"\x00"


def test_spare_places_of_java_are_skipped_and_sparse_bits_become_an_array():
    leaf = b"\x04\x00\x00\x00" + bytes(6) + struct.pack("<q", 0)
    bits = b"\x01\x01" + struct.pack("<i", 2) + b"\x81" + bytes(8191)
    content = b"\x01" + struct.pack("<q", 1) + leaf
    content += struct.pack("<ibi", 1, -2, 2) + bits + b"\x00" + struct.pack("<qii", 1, 0, 0)

    assert set(pyroaring.BitMap64.deserialize(portable_from_art(content))) == {0, 7}


@settings(deadline=None, max_examples=30)
@given(NUMBERS, NUMBERS)
def test_the_64_bit_function_unites_numbers(left, right):
    one = Table(table(folded("v", "rbm64", BytesType())), AGGREGATION)

    one.put([(0, (0, art(left))), (0, (0, None)), (0, (0, art(right)))])

    assert one.rows[0][1] == art(left | right)


def test_the_32_bit_function_unites_numbers():
    one = Table(table(folded("v", "rbm32", BytesType())), AGGREGATION)
    left, right = pyroaring.BitMap([1, 2, 70000]), pyroaring.BitMap(range(2, 500))

    one.put([(0, (0, left.serialize())), (0, (0, right.serialize()))])

    assert pyroaring.BitMap.deserialize(one.rows[0][1]) == left | right


@cases("kind", ["rbm32", "rbm64"])
def test_a_malformed_bitmap_is_refused_before_it_is_kept(kind):
    one = Table(table(folded("v", kind, BytesType())), AGGREGATION)

    with pytest.raises(InvalidValueError, match="Column 'v'"):
        one.put([(0, (0, b"\x01 no bitmap"))])

    assert one.rows == {}


@settings(deadline=None)
@given(NUMBERS, st.data())
def test_damaged_bytes_are_refused_or_read_but_never_crash(numbers, data):
    content = bytearray(art(numbers))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))

    with contextlib.suppress(InvalidValueError):
        bitmaps.check64(bytes(content[: data.draw(st.integers(0, len(content)))]))


def test_a_missing_library_is_said_when_the_engine_is_chosen(monkeypatch):
    monkeypatch.setattr(bitmaps, "IS_AVAILABLE", False)
    one = Table(table(folded("v", "rbm32", BytesType())), AGGREGATION)

    with pytest.raises(UnsupportedError, match="headwater\\[bitmaps\\]"):
        one.put([(0, (0, None))])
