"""Arrays keep their values when they are brought to other types."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.lake.iceberg.types import fitted

SMALL = st.integers(-100, 100)
ROWS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "a": SMALL,
            "l": st.none() | st.lists(SMALL, max_size=3),
            "m": st.none() | st.lists(st.tuples(st.text(max_size=2), SMALL), max_size=2),
        }
    ),
    max_size=8,
)


def row_type(number: pa.DataType, *, named: str, required: bool) -> pa.DataType:
    """Return a nested type of one shape, under other names, ids and nullability inside."""

    def field(name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, nullable=not required, metadata={b"id": named.encode()})

    return pa.struct(
        [
            field("a", number),
            pa.field("l", pa.list_(field(named, number))),
            pa.field("m", pa.map_(pa.string(), field("value", number))),
        ]
    )


@given(ROWS, st.integers(0, 8))
def test_nested_values_stay_whatever_the_type_says_of_nulls(rows, start):
    narrow = row_type(pa.int8(), named="item", required=False)
    wide = row_type(pa.int32(), named="element", required=True)
    values = pa.array(rows, narrow).slice(start)

    there = fitted(values, wide)
    back = fitted(there, narrow)

    assert there.type.equals(wide, check_metadata=True)
    there.validate(full=True)
    assert back.equals(values)
    assert back.to_pylist() == rows[start:]


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(pa.ArrowInvalid):
        fitted(pa.array([300], pa.int32()), pa.int8())


def test_an_array_that_fits_is_not_copied():
    values = pa.array(["a"])

    assert fitted(values, pa.string()) is values
