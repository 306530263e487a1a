"""Data frames of libraries that are imported by their users: pandas and Polars."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.plain_values import column_of
from headwater.errors import InvalidValueError, UnsupportedError

if TYPE_CHECKING:
    import polars as pl

_NO_COLUMNS = pa.schema([])


class Columns(Protocol):
    """Be the names of the columns of a pandas data frame."""

    @property
    def is_unique(self) -> bool:
        """Tell whether no name occurs twice."""

    def tolist(self) -> list[object]:
        """Return the names."""


class Index(Protocol):
    """Be the index of a pandas data frame."""

    @property
    def names(self) -> Sequence[object]:
        """Return the name of each level, None where it has none."""


class Moments(Protocol):
    """Be what pandas offers for a column of timestamps."""

    def tz_convert(self, tz: None) -> "Series":
        """Return the timestamps in UTC, without their zone."""


class Series(Protocol):
    """Be a column of a pandas data frame."""

    @property
    def dt(self) -> Moments:
        """Return what there is for timestamps."""

    def to_numpy(self) -> npt.NDArray[np.generic]:
        """Return the values."""

    @property
    def dtype(self) -> object:
        """Return the type of the values."""

    def notna(self) -> "Series":
        """Tell which values are there."""

    def where(self, condition: "Series", other: object) -> "Series":
        """Return other values where a condition is not met."""

    def tolist(self) -> list[object]:
        """Return the values."""


class PandasFrame(Protocol):
    """Be a pandas data frame."""

    @property
    def columns(self) -> Columns:
        """Return the names of the columns."""

    @property
    def index(self) -> Index:
        """Return the index."""

    def __getitem__(self, name: object, /) -> Series:
        """Return a column."""

    def head(self, n: int) -> "PandasFrame":
        """Return the first rows."""

    def reset_index(self, level: Sequence[object]) -> "PandasFrame":
        """Turn levels of the index into columns."""


class LazyFrame(Protocol):
    """Be a lazy data frame of Polars."""

    def collect(self) -> object:
        """Return a data frame."""

    def collect_schema(self) -> object:
        """Return names and types."""


def is_pandas(given: object) -> TypeGuard[PandasFrame]:
    """Tell whether something is a pandas data frame."""
    return _library(given) == "pandas" and type(given).__name__ == "DataFrame"


def is_series(given: object) -> bool:
    """Tell whether something is a column of pandas or Polars."""
    return _library(given) in ("pandas", "polars") and type(given).__name__ == "Series"


def is_pandas_series(given: object) -> TypeGuard[Series]:
    """Tell whether something is a column of pandas."""
    return _library(given) == "pandas" and type(given).__name__ == "Series"


def is_polars_lazy(given: object) -> TypeGuard[LazyFrame]:
    """Tell whether something is a lazy data frame of Polars."""
    return _library(given) == "polars" and type(given).__name__ == "LazyFrame"


def pandas_table(frame: PandasFrame, schema: pa.Schema) -> pa.Table:
    """Return a pandas data frame as a table; levels of its index with a name are columns.

    Objects become values of the schema's types, other columns keep the type they have.
    """
    frame = _with_named_index(frame)
    return pa.table({str(name): _column(frame, name, schema) for name in frame.columns.tolist()})


def pandas_schema(frame: PandasFrame) -> pa.Schema:
    """Return names and types of the columns of a pandas data frame, named levels included."""
    frame = _with_named_index(frame)
    empty = frame.head(0)
    fields = []
    for name in frame.columns.tolist():
        # Only what objects are has to be found out by looking at them.
        chosen = frame if str(frame[name].dtype) == "object" else empty
        fields.append(pa.field(str(name), _column(chosen, name, _NO_COLUMNS).type))
    return pa.schema(fields)


def polars_schema(given: object) -> pa.Schema | None:
    """Return names and types of a data frame or schema of Polars, None for anything else."""
    if _library(given) != "polars":
        return None
    schema = given.collect_schema() if is_polars_lazy(given) else getattr(given, "schema", given)
    return pa.schema(schema)


def polars_frame(table: pa.Table) -> "pl.DataFrame":
    """Return a table as a data frame of Polars, or say how to install that."""
    if find_spec("polars") is None:
        raise UnsupportedError(
            "Polars is not installed.", hint="Install it with: pip install headwater[polars]"
        )
    return import_module("polars").from_arrow(table)


def _with_named_index(frame: PandasFrame) -> PandasFrame:
    if named := [name for name in frame.index.names if name is not None]:
        frame = frame.reset_index(level=named)
    if not frame.columns.is_unique:
        raise InvalidValueError("The data frame has several columns of one name.")
    return frame


def _column(frame: PandasFrame, name: object, schema: pa.Schema) -> pa.Array | pa.ChunkedArray:
    field = schema.field(name) if name in schema.names else None
    return pandas_column(frame[name], field, name=str(name))


def pandas_column(
    series: Series, field: pa.Field | None, *, name: str
) -> pa.Array | pa.ChunkedArray:
    """Return a column of pandas; objects become values of the type of the field, if there is one.

    What pandas counts as missing is null.
    """
    if str(series.dtype) == "object" and field is not None:
        present = series.where(series.notna(), None)
        return column_of(present.tolist(), field)
    if getattr(series.dtype, "tz", None) is not None:
        # Arrow would ask for the values in a way that newer versions of pandas warn of.
        utc = pa.array(series.dt.tz_convert(None).to_numpy(), from_pandas=True)
        return utc.cast(pa.timestamp(utc.type.unit, "UTC"))
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InvalidValueError(
            f"The column '{name}' of pandas cannot be read: {str(error).splitlines()[0]}."
        ) from None


def _library(given: object) -> str:
    return type(given).__module__.partition(".")[0]
