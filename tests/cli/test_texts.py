"""Values as text and back."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.cli.output import json_texts, plain_texts
from headwater.cli.values import nested_array, typed, typed_value
from headwater.errors import InvalidValueError
from tests.cases import cases
from tests.rows.strategies import arrays, data_types

# Days that people have no name for are shown as numbers, and are not read back.
FAR_AWAY = re.compile(r"out of range|\d{5}-\d\d-|-\d{4}-\d\d-")


@st.composite
def columns(draw):
    count = draw(st.integers(0, 6))
    column = draw(arrays(draw(data_types()), count))
    assume(not any(FAR_AWAY.search(text or "") for text in plain_texts(column).to_pylist()))
    return column


@given(columns())
def test_texts_of_every_type_are_read_back_as_the_same_values(column):
    texts = plain_texts(column)

    assert typed(texts, column.type).equals(column)


@given(columns())
def test_json_of_every_type_is_read_back_as_the_same_values(column):
    parsed = [json.loads(text) for text in json_texts(column).to_pylist()]

    assert nested_array(parsed, column.type).equals(column)


@given(columns())
def test_a_part_of_a_column_has_the_texts_of_that_part(column):
    texts = plain_texts(column).to_pylist()

    assert plain_texts(column.slice(1)).to_pylist() == texts[1:]
    assert typed(plain_texts(column).slice(1), column.type).equals(column.slice(1))


@cases("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_texts_in_it(value):
    [text] = json_texts(pa.array([value])).to_pylist()

    assert repr(float(json.loads(text))) == repr(value)


@cases(
    ("text", "kind"),
    [
        ("x", pa.int64()),
        ("300", pa.int8()),
        ("1.005", pa.decimal128(5, 2)),
        ("0g", pa.binary()),
        ("0", pa.binary()),
        ("00", pa.binary(2)),
        ("25:00:00", pa.time32("s")),
        ("2026-02-30", pa.date32()),
        ("yesterday", pa.timestamp("us")),
        ("[1", pa.list_(pa.int64())),
        ('{"a":1}', pa.list_(pa.int64())),
        ('{"b":1}', pa.struct([("a", pa.int64())])),
        ("[null]", pa.map_(pa.string(), pa.int64())),
        ('[{"key":null,"value":1}]', pa.map_(pa.string(), pa.int64())),
    ],
)
def test_a_text_that_is_no_value_of_a_type_is_refused(text, kind):
    with pytest.raises(InvalidValueError, match=re.escape(text)):
        typed_value(text, kind)


@given(st.integers(0, 99), st.sets(st.integers(0, 99), min_size=1))
def test_the_first_text_that_is_no_value_is_named(length, bad):
    texts = pa.array(["x" if row in bad else "1" for row in range(length + 100)])

    with pytest.raises(InvalidValueError, match=rf"^row {min(bad)}: 'x' "):
        typed(texts, pa.int64(), place=lambda row: f"row {row}: ")


def test_an_instant_without_a_zone_is_in_utc():
    kind = pa.timestamp("s", "UTC")

    texts = ["2026-03-01T12:00:00", "2026-03-01T13:00:00+01:00", "2026-03-01 12:00:00Z"]

    assert len(set(typed(pa.array(texts), kind).to_pylist())) == 1
