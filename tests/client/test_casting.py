from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.errors import InvalidValueError
from headwater.rows.columns import cast_column
from tests.cases import cases

PAIRS = pa.list_(pa.struct([("k", pa.string()), ("v", pa.int64())]))
STRICT = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])


def cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    found = cast_column(array, pa.field("c", target))
    found.validate(full=True)
    assert found.type == target
    return found


@cases(
    ("array", "target"),
    [
        (pa.array([1, None]), pa.int8()),
        (pa.array([1, 255], pa.uint8()), pa.int16()),
        (pa.array([1.0, None]), pa.int32()),
        (pa.array([Decimal("5.00")]), pa.int32()),
        (pa.array([1, 2]), pa.float32()),
        (pa.array([1.5, float("inf"), float("nan")]), pa.float32()),
        (pa.array([np.float16(1.5)], pa.float16()), pa.float64()),
        (pa.array([5, -7]), pa.decimal128(5, 2)),
        (pa.array([Decimal("1.50")]), pa.decimal128(3, 1)),
        (pa.array([Decimal("1.5")], pa.decimal256(50, 1)), pa.decimal128(4, 2)),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array(["a", "a"]).dictionary_encode(), pa.string()),
        (pa.array(["a", None]).cast(pa.string_view()), pa.string()),
        (pc.run_end_encode(pa.array(["a", "a"])), pa.string()),
        (pa.array([b"ab"], pa.large_binary()), pa.binary(2)),
        (pa.array([b"ab"], pa.binary(2)), pa.binary()),
        (pa.array([date(2024, 1, 1)], pa.date64()), pa.date32()),
        (pa.array([1000, 2000], pa.time32("ms")), pa.time32("s")),
        (pa.nulls(2), pa.list_(pa.int32())),
    ],
)
def test_values_keep_their_meaning(array, target):
    found = cast(array, target)

    assert str(found.to_pylist()) == str([_plain(each, target) for each in array.to_pylist()])


def _plain(value, target):
    if value is None:
        return None
    if pa.types.is_decimal(target):
        return Decimal(value).quantize(Decimal(1).scaleb(-target.scale))
    if pa.types.is_integer(target):
        return int(value)
    return float(value) if pa.types.is_floating(target) else value


@cases(
    ("array", "target"),
    [
        (pa.array([300]), pa.int8()),
        (pa.array([2**63], pa.uint64()), pa.int64()),
        (pa.array([1.5]), pa.int32()),
        (pa.array([float("nan")]), pa.int32()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([2**60 + 1]), pa.float64()),
        (pa.array([1.5]), pa.decimal128(5, 2)),
        (pa.array([5000]), pa.decimal128(5, 2)),
        (pa.array([Decimal("1.555")]), pa.decimal128(5, 2)),
        (pa.array([Decimal("1.5")]), pa.float64()),
        (pa.array([True]), pa.int32()),
        (pa.array([1]), pa.bool_()),
        (pa.array([1]), pa.string()),
        (pa.array(["1"]), pa.int32()),
        (pa.array([b"a"]), pa.string()),
        (pa.array([b"abc"]), pa.binary(2)),
        (pa.array([1500], pa.timestamp("ms")), pa.timestamp("s")),
        (pa.array([1500], pa.time32("ms")), pa.time32("s")),
        (pa.array([1], pa.duration("s")), pa.int64()),
        (pa.array([datetime(2024, 1, 1, 5)]), pa.date32()),
        (pa.array([1]), pa.list_(pa.int64())),
        (pa.array([[1]]), pa.map_(pa.string(), pa.int64())),
        (pa.array([{"a": 1}]), pa.list_(pa.int64())),
    ],
)
def test_what_would_lose_something_is_refused(array, target):
    with pytest.raises(InvalidValueError, match="The column 'c' of type"):
        cast(array, target)


def test_times_without_a_zone_never_become_instants():
    with pytest.raises(InvalidValueError, match="have no time zone"):
        cast(pa.array([0], pa.timestamp("ms")), pa.timestamp("ms", "UTC"))


def test_instants_never_become_times_without_a_zone():
    with pytest.raises(InvalidValueError, match="are in the zone Europe/Oslo"):
        cast(pa.array([0], pa.timestamp("ms", "Europe/Oslo")), pa.timestamp("ms"))


def test_instants_of_other_zones_stay_the_same_instants():
    found = cast(pa.array([1500], pa.timestamp("ms", "Europe/Oslo")), pa.timestamp("us", "UTC"))

    assert found.cast(pa.int64()).to_pylist() == [1_500_000]


def test_midnights_become_dates():
    found = cast(pa.array([datetime(2024, 1, 1), None]), pa.date32())

    assert found.to_pylist() == [date(2024, 1, 1), None]


@cases(
    "kind",
    [
        pa.list_(pa.large_string()),
        pa.large_list(pa.string()),
        pa.list_(pa.string(), 2),
        pa.list_view(pa.string_view()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
    ],
)
def test_lists_of_all_kinds_become_lists(kind):
    values = [["a", None], None, ["b", "c"], ["d", "e"]]

    found = cast(pa.array(values, kind).slice(1), pa.list_(pa.string()))

    assert found.to_pylist() == values[1:]


def test_lists_of_pairs_and_maps_become_maps():
    target = pa.map_(pa.string(), pa.field("value", pa.int32()))
    values = [[("a", 1)], None, [("b", 2), ("c", None)], []]
    pairs = [each and [{"k": k, "v": v} for k, v in each] for each in values]

    listed = cast(pa.array(pairs, PAIRS).slice(1), target)
    mapped = cast(pa.array(values, pa.map_(pa.large_string(), pa.int64())).slice(1), target)

    assert listed.to_pylist()[1:] == mapped.to_pylist()[1:] == values[2:]
    assert listed[0].as_py() is mapped[0].as_py() is None


def test_fields_of_structs_are_matched_by_name_and_missing_ones_are_null():
    given = pa.array([{"b": "x", "a": 1}, None, {"b": "y", "a": 2}]).slice(1)

    assert cast(given, STRICT).to_pylist() == [None, {"a": 2, "b": "y"}]
    assert cast(pa.array([{"a": 1}]), STRICT).to_pylist() == [{"a": 1, "b": None}]


@cases(
    ("value", "message"),
    [
        ({"a": 1, "bb": "x"}, "no field of 'c' 'bb'. Did you mean 'b'"),
        ({"b": "x"}, "field of 'c' 'a' is missing"),
        ({"a": 2**40}, "'c.a' of type int32"),
    ],
)
def test_structs_that_do_not_fit_are_refused(value, message):
    with pytest.raises(InvalidValueError, match=message):
        cast(pa.array([value]), STRICT)
