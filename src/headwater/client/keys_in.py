"""Keys as people hold them, made into rows of the columns of a key.

Taken is whatever is taken as rows, with the columns of the key. Where that is one column, its
values will do as they are: a single one, any iterable of them, a NumPy or Arrow array, a series of
pandas or Polars. `get` takes one key (`KeyLike`): a mapping, a tuple, or such a value.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from headwater.client.frames import is_series
from headwater.client.rows_in import ArrowArray, ArrowStream, RowsLike
from headwater.errors import InvalidValueError

Scalar: TypeAlias = str | bytes | int | float | Decimal | date | time | datetime | np.generic
"""The value of one column of a key."""

KeysLike: TypeAlias = RowsLike | Scalar
"""Rows with the columns of a key; where that has one column, its values as they are will do."""

KeyLike: TypeAlias = Mapping[str, object] | tuple[object, ...] | Scalar
"""One key: a mapping, a tuple in the order of the columns, or the value of a single column."""


def keys_in(keys: KeysLike, names: Sequence[str]) -> RowsLike:
    """Return keys as rows or columns of these names."""
    if isinstance(keys, Mapping):
        return keys
    if isinstance(keys, Scalar):
        return _named([keys], names)
    if _is_column(keys):
        return _named(keys, names)
    if isinstance(keys, ArrowStream | ArrowArray):
        return keys
    if isinstance(keys, Iterator):
        return (each if not isinstance(each, Scalar) else _row(each, names) for each in keys)
    if isinstance(keys, Collection) and isinstance(next(iter(keys), None), Scalar):
        return _named(list(keys), names)
    return keys


def key_in(key: KeyLike, names: Sequence[str]) -> RowsLike:
    """Return one key as rows; a tuple is one here, and not several."""
    return keys_in([key] if isinstance(key, tuple) else key, names)


def _is_column(keys: KeysLike) -> TypeGuard[Iterable[object]]:
    """Tell whether something is a column of its own, rather than a table."""
    if isinstance(keys, pa.StructArray):
        return False
    return isinstance(keys, pa.Array | pa.ChunkedArray | np.ndarray) or is_series(keys)


def _named(values: Iterable[object], names: Sequence[str]) -> dict[str, object]:
    return {_only(names): values}


def _row(value: Scalar, names: Sequence[str]) -> tuple[Scalar]:
    _only(names)
    return (value,)


def _only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise InvalidValueError(
            f"The key has the columns {', '.join(names)}, so a single value is none.",
            hint="Give mappings or tuples. Wrap a single tuple in a list.",
        )
    return names[0]
