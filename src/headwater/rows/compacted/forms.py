"""The three forms that values take in bytes, whatever lies around them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.rows.compacted.origin import Origin
from headwater.rows.row_bytes import Longs, RowBytes

Numbers = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class NumberForm(ABC):
    """Be a number, of fixed width in array slots; rows may pack it as a varint."""

    arrow: pa.DataType
    dtype: np.dtype[np.generic]
    is_packed: bool

    @abstractmethod
    def from_numbers(self, numbers: Numbers, origin: Origin, /) -> pa.Array:
        """Return the array for these numbers."""

    @abstractmethod
    def to_numbers(self, array: pa.Array) -> Numbers:
        """Return the numbers of an array; those of nulls may be anything."""


@dataclass(frozen=True, slots=True)
class InstantForm(ABC):
    """Be a number of milliseconds with the nanoseconds after it."""

    arrow: pa.DataType

    @abstractmethod
    def join(self, millis: Longs, nanos: Longs, origin: Origin, /) -> pa.Array:
        """Return the array for these instants."""

    @abstractmethod
    def split(self, array: pa.Array) -> tuple[Longs, Longs]:
        """Return milliseconds and nanoseconds; those of nulls may be anything."""


@dataclass(frozen=True, slots=True)
class SpanForm(ABC):
    """Be a string of bytes, which starts with its length in rows and which slots point to.

    Array slots hold short strings themselves if they are inlined. For others an array sets
    aside the reserved bytes, or as many as the string takes if that is 0.
    """

    arrow: pa.DataType
    is_inlined: bool
    reserved_bytes: int

    @abstractmethod
    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Return the array for these strings."""

    @abstractmethod
    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Return the strings of an array; those of nulls are null or empty."""


Form = NumberForm | InstantForm | SpanForm
