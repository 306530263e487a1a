"""Columns as users name and supply them: names are checked, values cast without loss."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidValueError
from headwater.rows.compute import pc
from headwater.rows.row_bytes import nulls_of, starts_of

_SHOWN_MAX = 12


def chosen(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Normalise the columns that a user selects; None means all."""
    return None if columns is None else names(columns)


def names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Normalise column names; a single one may be given as a string."""
    return (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The names that are allowed, and what they name."""

    known: tuple[str, ...]
    what: str

    @classmethod
    def of(cls, fields: Iterable[pa.Field], *, what: str = "column") -> "ColumnNames":
        """Collect the names of fields."""
        return cls(tuple(field.name for field in fields), what)

    def check_known(self, given: Sequence[str]) -> None:
        """Reject names that are unknown or repeated."""
        for name in given:
            if name not in self.known:
                raise InvalidValueError(f"There is no {self.what} '{name}'.", hint=self._hint(name))
        if repeated := [name for name, count in Counter(given).items() if count > 1]:
            raise InvalidValueError(f"The {self.what} '{repeated[0]}' is given twice.")

    def check_optional(self, field: pa.Field) -> None:
        """Reject leaving out a NOT NULL field."""
        if not field.nullable:
            raise InvalidValueError(
                f"The {self.what} '{field.name}' is missing, but it is declared NOT NULL.",
                hint="Set it in every row.",
            )

    def _hint(self, name: str) -> str:
        if near := get_close_matches(name, self.known, n=1):
            return f"Did you mean '{near[0]}'?"
        more = ", …" if len(self.known) > _SHOWN_MAX else ""
        return f"There are {', '.join(self.known[:_SHOWN_MAX])}{more}."


# How objects of the client are shown, such as `Scan('shop.orders', columns=['id', 'price'])`.

COLUMNS_SHOWN_MAX = 8


def shown(thing: object, name: str, **fields: object) -> str:
    """Format an object's class, its name, and a few more facts."""
    parts = [repr(name), *(f"{key}={value!r}" for key, value in fields.items())]
    return f"{type(thing).__name__}({', '.join(parts)})"


def few(columns: Sequence[str]) -> list[str]:
    """List the names of columns, only the first of them if there are many."""
    more = ["…"] if len(columns) > COLUMNS_SHOWN_MAX else []
    return [*columns[:COLUMNS_SHOWN_MAX], *more]


# Casts of Arrow columns to the exact types of a table, without loss.

_WHOLE = pa.decimal128(38, 0)
_PAIR = 2
_APART = "these types are not compatible"


def cast_column(array: pa.Array, field: pa.Field, *, path: str = "") -> pa.Array:
    """Cast a column to the type of a field; the error says why it does not fit."""
    where = path or field.name
    try:
        return _cast(array, field.type, where)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        why = str(error).splitlines()[0]
        hint = "Values are widened, or narrowed if nothing is lost."
        if why == _APART:
            hint = f"Convert the column first, for example with cast({field.type}) of pyarrow."
        raise InvalidValueError(
            f"The column '{where}' of type {field.type} cannot take {array.type}: {why}.", hint=hint
        ) from None


def _cast(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if array.type == target:
        return array
    plain = _unpacked(array)
    if pa.types.is_null(plain.type):
        return pa.nulls(len(plain), target)
    if pa.types.is_struct(target) and pa.types.is_struct(plain.type):
        return _cast_struct(plain, target, path)
    if pa.types.is_map(target) and _is_listed(plain.type):
        return _cast_map(plain, target, path)
    if pa.types.is_list(target) and _is_listed(plain.type):
        return _cast_list(plain, target, path)
    return _cast_scalars(plain, target, path)


def _unpacked(array: pa.Array) -> pa.Array:
    """Strip extension, dictionary and run-end encoding from an array."""
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def _is_listed(kind: pa.DataType) -> bool:
    return (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
        or pa.types.is_map(kind)
    )


def _cast_struct(array: pa.StructArray, target: pa.StructType, path: str) -> pa.Array:
    # Flattening makes the fields of null rows null.
    given = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    names = ColumnNames.of(target, what=f"field of '{path}'")
    names.check_known([field.name for field in array.type])
    children = []
    for field in target:
        inner = f"{path}.{field.name}"
        if field.name in given:
            children.append(cast_column(given[field.name], field, path=inner))
        else:
            names.check_optional(field)
            children.append(pa.nulls(len(array), field.type))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _cast_list(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    child = cast_column(array.flatten(), target.value_field, path=f"{path}.item")
    return _listed(array, target, child)


def _cast_map(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    listed = array
    if pa.types.is_map(array.type):
        fields = [("key", array.type.key_type), ("value", array.type.item_type)]
        listed = array.cast(pa.list_(pa.struct(fields)))
    entries = listed.flatten()
    if not pa.types.is_struct(entries.type) or entries.type.num_fields != _PAIR:
        raise pa.ArrowInvalid("a map is made of pairs of key and value")
    fields = [target.key_field, target.item_field]
    children = [
        cast_column(child, field, path=f"{path}.{name}")
        for child, field, name in zip(entries.flatten(), fields, ("key", "value"), strict=True)
    ]
    return _listed(listed, target, pa.StructArray.from_arrays(children, fields=fields))


def _listed(array: pa.Array, target: pa.DataType, child: pa.Array) -> pa.Array:
    """Build lists of the same lengths over other, contiguous elements."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    offsets = starts_of(lengths).astype(np.int32)
    present = np.packbits(~nulls_of(array), bitorder="little") if array.null_count else None
    buffers = [None if present is None else pa.py_buffer(present), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(target, len(array), buffers, children=[child])


def _cast_scalars(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    source = array.type
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(source):
        _check_zone(source, target, path)
    if not _may_become(source, target):
        raise pa.ArrowInvalid(_APART)
    if pa.types.is_decimal(target) and pa.types.is_integer(source):
        return array.cast(_WHOLE).cast(target)
    cast = array.cast(target)
    if pa.types.is_float32(target) and pc.any(_grew_infinite(array, cast)).as_py():
        raise pa.ArrowInvalid("a number is too large")
    if pa.types.is_date(target) and pa.types.is_timestamp(source) and cast.cast(source) != array:
        raise pa.ArrowInvalid("a time of day would be lost")
    return cast


def _grew_infinite(array: pa.Array, cast: pa.Array) -> pa.Array:
    was = pc.is_inf(array) if pa.types.is_floating(array.type) else pa.scalar(value=False)
    return pc.and_not(pc.is_inf(cast), was)


def _check_zone(source: pa.DataType, target: pa.DataType, path: str) -> None:
    if target.tz is not None and source.tz is None:
        raise InvalidValueError(
            f"The column '{path}' contains instants, but the given values have no time zone.",
            hint="Set the time zone, for example with pyarrow.compute.assume_timezone.",
        )
    if target.tz is None and source.tz is not None:
        raise InvalidValueError(
            f"The column '{path}' contains wall-clock times, but the given values are in the "
            f"zone {source.tz}.",
            hint="Remove the time zone, for example with pyarrow.compute.local_timestamp.",
        )


def _may_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether a type can be cast to another at all; single values may still not fit."""
    is_number = pa.types.is_integer(source) or pa.types.is_floating(source)
    if pa.types.is_integer(target):
        return is_number or pa.types.is_decimal(source)
    if pa.types.is_floating(target):
        return is_number
    if pa.types.is_decimal(target):
        return pa.types.is_integer(source) or pa.types.is_decimal(source)
    if pa.types.is_string(target):
        return _is_text(source)
    return _may_become_bytes_or_time(source, target)


def _may_become_bytes_or_time(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_binary(target) or pa.types.is_fixed_size_binary(target):
        return _is_bytes(source)
    if pa.types.is_time(target):
        return pa.types.is_time(source)
    if pa.types.is_date(target):
        return pa.types.is_date(source) or (pa.types.is_timestamp(source) and source.tz is None)
    if pa.types.is_timestamp(target):
        return pa.types.is_timestamp(source) or (pa.types.is_date(source) and target.tz is None)
    return False


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()


def _is_bytes(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    )
