"""Data frames of pandas and Polars, without importing either."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import InvalidValueError, UnsupportedError
from headwater.rows.plain_values import column_of

if TYPE_CHECKING:
    import polars as pl

_NO_COLUMNS = pa.schema([])


class _Columns(Protocol):
    """The column names of a pandas data frame."""

    @property
    def is_unique(self) -> bool: ...

    def tolist(self) -> list[object]: ...


class _Index(Protocol):
    """The index of a pandas data frame."""

    @property
    def names(self) -> Sequence[object]: ...


class _Moments(Protocol):
    """The `dt` accessor of a pandas series."""

    def tz_convert(self, tz: None) -> "_Series": ...


class _Series(Protocol):
    """A column of a pandas data frame."""

    @property
    def dt(self) -> _Moments: ...

    def to_numpy(self) -> npt.NDArray[np.generic]: ...

    @property
    def dtype(self) -> object: ...

    def notna(self) -> "_Series": ...

    def where(self, condition: "_Series", other: object) -> "_Series": ...

    def tolist(self) -> list[object]: ...


class _PandasFrame(Protocol):
    """A pandas data frame."""

    @property
    def columns(self) -> _Columns: ...

    @property
    def index(self) -> _Index: ...

    def __getitem__(self, name: object, /) -> _Series: ...

    def head(self, n: int) -> "_PandasFrame": ...

    def reset_index(self, level: Sequence[object]) -> "_PandasFrame": ...


class _LazyFrame(Protocol):
    """A lazy data frame of Polars."""

    def collect(self) -> object: ...

    def collect_schema(self) -> object: ...


def is_pandas(given: object) -> TypeGuard[_PandasFrame]:
    """Tell whether something is a pandas data frame."""
    return _library(given) == "pandas" and type(given).__name__ == "DataFrame"


def is_series(given: object) -> bool:
    """Tell whether something is a series of pandas or Polars."""
    return _library(given) in ("pandas", "polars") and type(given).__name__ == "Series"


def is_pandas_series(given: object) -> TypeGuard[_Series]:
    """Tell whether something is a series of pandas."""
    return _library(given) == "pandas" and type(given).__name__ == "Series"


def is_polars_lazy(given: object) -> TypeGuard[_LazyFrame]:
    """Tell whether something is a lazy data frame of Polars."""
    return _library(given) == "polars" and type(given).__name__ == "LazyFrame"


def pandas_table(frame: _PandasFrame, schema: pa.Schema) -> pa.Table:
    """Convert a pandas data frame to a table; named index levels become columns.

    Objects are converted to the schema's types, other columns keep their type.
    """
    frame = _with_named_index(frame)
    return pa.table({str(name): _column(frame, name, schema) for name in frame.columns.tolist()})


def pandas_schema(frame: _PandasFrame) -> pa.Schema:
    """Infer the schema of a pandas data frame, including named index levels."""
    frame = _with_named_index(frame)
    empty = frame.head(0)
    fields = []
    for name in frame.columns.tolist():
        # Only the types of objects have to be inferred from their values.
        chosen = frame if str(frame[name].dtype) == "object" else empty
        fields.append(pa.field(str(name), _column(chosen, name, _NO_COLUMNS).type))
    return pa.schema(fields)


def polars_schema(given: object) -> pa.Schema | None:
    """Return the schema of a Polars data frame or schema; None for anything else."""
    if _library(given) != "polars":
        return None
    schema = given.collect_schema() if is_polars_lazy(given) else getattr(given, "schema", given)
    return pa.schema(schema)


def polars_frame(table: pa.Table) -> "pl.DataFrame":
    """Convert a table to a Polars data frame."""
    if find_spec("polars") is None:
        raise UnsupportedError(
            "Polars is not installed.", hint="Install it with: pip install headwater[polars]"
        )
    return import_module("polars").from_arrow(table)


def _with_named_index(frame: _PandasFrame) -> _PandasFrame:
    if named := [name for name in frame.index.names if name is not None]:
        frame = frame.reset_index(level=named)
    if not frame.columns.is_unique:
        raise InvalidValueError("The data frame has several columns with the same name.")
    return frame


def _column(frame: _PandasFrame, name: object, schema: pa.Schema) -> pa.Array | pa.ChunkedArray:
    field = schema.field(name) if name in schema.names else None
    return pandas_column(frame[name], field, name=str(name))


def pandas_column(
    series: _Series, field: pa.Field | None, *, name: str
) -> pa.Array | pa.ChunkedArray:
    """Convert a pandas series; objects become values of the field's type, if there is one.

    What pandas counts as missing is null.
    """
    if str(series.dtype) == "object" and field is not None:
        present = series.where(series.notna(), None)
        return column_of(present.tolist(), field)
    if getattr(series.dtype, "tz", None) is not None:
        # Arrow would use an attribute that newer versions of pandas deprecate.
        utc = pa.array(series.dt.tz_convert(None).to_numpy(), from_pandas=True)
        return utc.cast(pa.timestamp(utc.type.unit, "UTC"))
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InvalidValueError(
            f"Cannot read the pandas column '{name}': {str(error).splitlines()[0]}."
        ) from None


def _library(given: object) -> str:
    return type(given).__module__.partition(".")[0]
