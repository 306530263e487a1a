"""Rows of manifests hold what was put into them, byte for byte as pypaimon writes them."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypaimon.schema.data_types import AtomicType, DataField
from pypaimon.table.row.generic_row import GenericRow, GenericRowDeserializer, GenericRowSerializer

from headwater.errors import CorruptFileError
from headwater.lake.paimon.types import EMPTY_ROW, from_binary_row, to_binary_row

COLUMNS = {
    "BIGINT": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "INT": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "BOOLEAN": (pa.bool_(), st.booleans()),
    "DOUBLE": (pa.float64(), st.floats(allow_nan=False)),
    "STRING": (pa.string(), st.text(max_size=20)),
    "BYTES": (pa.binary(), st.binary(max_size=20)),
    "DECIMAL(12, 2)": (pa.decimal128(12, 2), st.decimals(-999, 999, places=2)),
    "DECIMAL(30, 1)": (pa.decimal128(30, 1), st.decimals(-(10**20), 10**20, places=1)),
}
ROWS = st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=70).flatmap(
    lambda names: st.tuples(
        st.just(names), st.tuples(*(st.none() | COLUMNS[name][1] for name in names))
    )
)


@given(ROWS)
def test_a_row_comes_back_as_it_was(drawn):
    names, values = drawn
    types = [COLUMNS[name][0] for name in names]

    assert from_binary_row(types, to_binary_row(types, values)) == values


@given(ROWS)
def test_a_row_is_written_as_pypaimon_writes_it(drawn):
    names, values = drawn
    fields = [DataField(at, f"f{at}", AtomicType(name)) for at, name in enumerate(names)]

    theirs = GenericRowSerializer.to_bytes(GenericRow(list(values), fields))

    assert to_binary_row([COLUMNS[name][0] for name in names], values) == theirs


def test_moments_and_days_are_whole_numbers():
    types = [pa.date32(), pa.time32("ms"), pa.timestamp("us"), pa.timestamp("ms", "UTC")]
    values = (-719_163, 86_399_999, -62_135_596_800_000_001_000, 1_000_000)

    assert from_binary_row(types, to_binary_row(types, values)) == values


def test_an_empty_row_is_read_by_pypaimon():
    assert to_binary_row([], []) == EMPTY_ROW
    assert GenericRowDeserializer.from_bytes(EMPTY_ROW, []).values == []


def test_a_row_of_another_width_is_refused():
    row = to_binary_row([pa.int32()], [1])

    with pytest.raises(CorruptFileError):
        from_binary_row([pa.int32(), pa.int32()], row)


def test_a_type_that_nobody_knows_reads_as_nothing():
    row = to_binary_row([pa.int32(), pa.decimal128(5, 2)], [1, Decimal("1.25")])

    assert from_binary_row([pa.null(), pa.decimal128(5, 2)], row) == (None, Decimal("1.25"))
