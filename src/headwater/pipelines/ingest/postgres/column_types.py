"""The types of PostgreSQL: which type a column gets, and its values from text, by columns.

What a type of ours cannot hold exactly (numbers without bounds, intervals, ranges, enums) arrives
as the text that PostgreSQL writes. A single value that does not fit its column, such as `infinity`
in a DATE, is told with its row; the others are converted all the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model import types
from headwater.model.arrow import arrow_type
from headwater.pipelines.ingest.postgres.pgoutput import NO_TYPMOD, RelationColumn

# Which type a column gets.

_SCALARS: Mapping[int, types.DataType] = {
    16: types.BooleanType(),
    17: types.BytesType(),
    20: types.BigIntType(),
    21: types.SmallIntType(),
    23: types.IntType(),
    700: types.FloatType(),
    701: types.DoubleType(),
    1082: types.DateType(),
}
_TEXT = types.StringType()
_TEXTS = frozenset((25, 114, 1042, 1043, 2950, 3802))
_NUMERIC, _TIME, _TIMESTAMP, _TIMESTAMP_TZ = 1700, 1083, 1114, 1184
_ARRAYS: Mapping[int, int] = {
    199: 114,
    1000: 16,
    1001: 17,
    1005: 21,
    1007: 23,
    1009: 25,
    1014: 1042,
    1015: 1043,
    1016: 20,
    1021: 700,
    1022: 701,
    1115: _TIMESTAMP,
    1182: 1082,
    1183: _TIME,
    1185: _TIMESTAMP_TZ,
    1231: _NUMERIC,
    2951: 2950,
    3807: 3802,
}
"""Types of arrays, and of their elements."""
_MICROS = 6
_NUMERIC_HEADER = 4
_SCALE_BITS = 0x7FF
_SCALE_SIGN = 0x400
_PRECISION_SHIFT = 16


def data_type_of(type_id: int, modifier: int = NO_TYPMOD) -> types.DataType:
    """The type of a column; what we have no type for is text."""
    element = _ARRAYS.get(type_id)
    if element is not None:
        return types.ArrayType(element=data_type_of(element, modifier))
    precision = _MICROS if modifier == NO_TYPMOD else modifier
    match type_id:
        case 1700:
            return _numeric(modifier)
        case 1083:
            return types.TimeType(precision=precision)
        case 1114:
            return types.TimestampType(precision=precision)
        case 1184:
            return types.TimestampLtzType(precision=precision)
        case _:
            return _SCALARS.get(type_id, _TEXT)


def _numeric(modifier: int) -> types.DataType:
    """DECIMAL where the bounds are known and fit, or else text, which loses nothing."""
    if modifier == NO_TYPMOD:
        return _TEXT
    packed = modifier - _NUMERIC_HEADER
    precision = packed >> _PRECISION_SHIFT
    scale = ((packed & _SCALE_BITS) ^ _SCALE_SIGN) - _SCALE_SIGN
    if precision > types.DECIMAL_PRECISION_MAX or not 0 <= scale <= precision:
        return _TEXT
    return types.DecimalType(precision=precision, scale=scale)


def can_widen(old: types.DataType, new: types.DataType) -> bool:
    """Tell whether every value of a new type can be held, exactly, by an old one."""
    order = (types.SmallIntType, types.IntType, types.BigIntType)
    if isinstance(old, order) and isinstance(new, order):
        return order.index(type(new)) <= order.index(type(old))
    if isinstance(old, types.DecimalType) and isinstance(new, types.DecimalType):
        return new.scale <= old.scale and new.precision - new.scale <= old.precision - old.scale
    if isinstance(old, types.DoubleType):
        return isinstance(new, types.FloatType | types.DoubleType)
    return isinstance(old, types.StringType) or old == new


# Values from text.

_Convert = Callable[[pa.StringArray], pa.Array]


@dataclass(frozen=True, slots=True)
class BadValue:
    """A value that does not fit its column."""

    row: int
    column: str
    reason: str


def convert(
    name: str, texts: pa.StringArray, data_type: types.DataType, bad: list[BadValue]
) -> pa.Array:
    """Convert a column of text; values that do not fit become null, and are noted."""
    converter = _converter(data_type)
    try:
        return converter(texts)
    except (pa.ArrowInvalid, ValueError):
        return _one_by_one(name, texts, converter, arrow_type(data_type), bad)


def text_column(values: Sequence[bytes | None], name: str, bad: list[BadValue]) -> pa.StringArray:
    """Make a column of the bytes of text; what is not UTF-8 becomes null, and is noted."""
    column = pa.array(values, pa.binary())
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return _one_by_one(name, column, lambda part: part.cast(pa.string()), pa.string(), bad)


def _one_by_one(
    name: str, texts: pa.Array, converter: _Convert, kind: pa.DataType, bad: list[BadValue]
) -> pa.Array:
    """Halve a column until the values are found that do not fit."""

    def halves(start: int, stop: int) -> list[pa.Array]:
        part = texts.slice(start, stop - start)
        try:
            return [converter(part)]
        except (pa.ArrowInvalid, ValueError) as fault:
            if stop - start == 1:
                bad.append(BadValue(start, name, str(fault)))
                return [pa.nulls(1, kind)]
        middle = (start + stop) // 2
        return halves(start, middle) + halves(middle, stop)

    return pa.concat_arrays([each.cast(kind) for each in halves(0, len(texts))])


def _converter(data_type: types.DataType) -> _Convert:
    kind = arrow_type(data_type)
    match data_type:
        case types.StringType():
            return lambda texts: texts
        case types.BooleanType():
            return _booleans
        case types.BytesType():
            return _bytes
        case types.TimeType():
            return partial(_times, kind=kind)
        case types.TimestampType() | types.TimestampLtzType():
            return partial(_moments, kind=kind)
        case types.ArrayType(element=element):
            return partial(_arrays, kind=kind, element=_converter(element))
        case _:
            return lambda texts: texts.cast(kind)


def _booleans(texts: pa.StringArray) -> pa.Array:
    return pc.equal(texts, "t")


def _bytes(texts: pa.StringArray) -> pa.Array:
    # PostgreSQL writes `\x` and two digits for each byte.
    values = (None if each is None else bytes.fromhex(each[2:]) for each in texts.to_pylist())
    return pa.array(values, pa.binary())


def _moments(texts: pa.StringArray, kind: pa.TimestampType) -> pa.Array:
    return texts.cast(pa.timestamp("us", kind.tz)).cast(kind)


def _times(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    # Arrow parses moments only, so a time is one of the first day.
    moments = pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("us"))
    return moments.cast(pa.time64("us")).cast(kind)


# Arrays: `{1,NULL,"a,\"b"}`.

_PLAIN_END = frozenset(",}")


def _arrays(texts: pa.StringArray, kind: pa.ListType, element: _Convert) -> pa.Array:
    offsets: list[int | None] = []
    flat: list[str | None] = []
    for text in texts.to_pylist():
        offsets.append(None if text is None else len(flat))
        if text is not None:
            flat += elements_of(text)
    offsets.append(len(flat))
    values = element(pa.array(flat, pa.string())).cast(kind.value_type)
    made = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return made.cast(kind)


def elements_of(text: str) -> list[str | None]:
    """Cut the text of an array of one dimension into the text of its elements."""
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"An array with bounds of its own cannot be taken: {text[:40]}")
    found: list[str | None] = []
    at = 1
    while at < len(text) - 1:
        if text[at] == "{":
            raise ValueError(f"An array of several dimensions cannot be taken: {text[:40]}")
        value, at = _quoted(text, at + 1) if text[at] == '"' else _unquoted(text, at)
        found.append(value)
        at += 1
    return found


def _quoted(text: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    while text[at] != '"':
        at += text[at] == "\\"
        parts.append(text[at])
        at += 1
    return "".join(parts), at + 1


def _unquoted(text: str, at: int) -> tuple[str | None, int]:
    end = at
    while text[end] not in _PLAIN_END:
        end += 1
    value = text[at:end]
    return (None if value == "NULL" else value), end


def type_of(column: RelationColumn) -> types.DataType:
    """The type of a column as the log describes it."""
    return data_type_of(column.type_id, column.modifier)
