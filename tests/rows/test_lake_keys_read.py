import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError, UnsupportedError
from headwater.model.types import (
    BooleanType,
    BytesType,
    CharType,
    DoubleType,
    IntType,
    StringType,
)
from headwater.rows.keys import IcebergKeyReader, IcebergKeys, PaimonKeyReader, PaimonKeys
from headwater.rows.row_bytes import RowBytes
from tests.cases import cases
from tests.rows.strategies import arrays, scalar_types


def key_types() -> st.SearchStrategy:
    # Seconds reach further than the milliseconds in which keys hold them.
    in_reach = scalar_types().filter(lambda each: getattr(each, "precision", 3) > 0)
    return in_reach.map(lambda each: each.not_null())


@st.composite
def paimon_columns(draw):
    types = draw(st.lists(key_types(), min_size=1, max_size=4))
    count = draw(st.integers(1, 6))
    return types, [draw(arrays(each, count)) for each in types]


@st.composite
def iceberg_column(draw):
    data_type = draw(key_types().filter(_is_hashed))
    column = draw(arrays(data_type, draw(st.integers(1, 6))))
    if isinstance(data_type, StringType | CharType | BytesType):
        column = column.filter(pc.greater(pc.binary_length(column), 0))
    return data_type, column


def _is_hashed(data_type) -> bool:
    try:
        IcebergKeys.of([data_type])
    except UnsupportedError:
        return False
    return True


@given(paimon_columns())
def test_paimon_keys_are_read_as_they_were_written(drawn):
    types, columns = drawn
    keys = PaimonKeys.of(types).encode(columns)

    read = PaimonKeyReader.of(types).decode(keys)

    assert [column.type for column in read] == [column.type for column in columns]
    assert PaimonKeys.of(types).encode(read).to_list() == keys.to_list()


@given(iceberg_column())
def test_iceberg_keys_are_read_as_they_were_written(drawn):
    data_type, column = drawn
    keys = IcebergKeys.of([data_type]).encode([column])

    (read,) = IcebergKeyReader.of([data_type]).decode(keys)

    assert read.type == column.type
    assert IcebergKeys.of([data_type]).encode([read]).to_list() == keys.to_list()


@given(st.lists(key_types(), min_size=1, max_size=3), st.lists(st.binary(max_size=80), max_size=4))
def test_bytes_that_are_no_keys_are_refused_or_read_within_their_bounds(types, keys):
    for reader in (PaimonKeyReader.of(types), *map(_iceberg, filter(_is_hashed, types))):
        try:
            columns = reader.decode(RowBytes.of(keys))
        except CorruptBatchError:
            continue
        assert all(len(column) == len(keys) for column in columns)


def _iceberg(data_type) -> IcebergKeyReader:
    return IcebergKeyReader.of([data_type])


@cases("types", [[BooleanType()], [IntType(), DoubleType()]])
def test_keys_that_iceberg_does_not_know_have_no_reader(types):
    with pytest.raises(UnsupportedError):
        IcebergKeyReader.of(types)


def test_a_pointer_beyond_its_key_is_refused():
    (key,) = PaimonKeys.of([StringType()]).encode([pa.array(["longer than a slot"])]).to_list()

    with pytest.raises(CorruptBatchError, match="outside"):
        PaimonKeyReader.of([StringType()]).decode(RowBytes.of([key[:-8]]))
