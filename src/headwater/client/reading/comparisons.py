"""One column compared with values that it can hold."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.reading.literals import Native, literal_of, scalar_of
from headwater.model.predicate import Leaf, LeafFunction
from headwater.model.schema import Column
from headwater.model.types import BinaryType, BytesType, DoubleType, FloatType, TimeType

IN_LITERALS_PUSHED_MAX = 256
NULL_CHECKS = (LeafFunction.IS_NULL, LeafFunction.IS_NOT_NULL)
LISTS = (LeafFunction.IN, LeafFunction.NOT_IN)
_MILLIS_PRECISION_MAX = 3
_LONG_MAX = 2**63 - 1
_NANOS_PER_MILLI = 1_000_000
_COMPARE: dict[LeafFunction, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    LeafFunction.EQUAL: pc.equal,
    LeafFunction.NOT_EQUAL: pc.not_equal,
    LeafFunction.LESS_THAN: pc.less,
    LeafFunction.LESS_OR_EQUAL: pc.less_equal,
    LeafFunction.GREATER_THAN: pc.greater,
    LeafFunction.GREATER_OR_EQUAL: pc.greater_equal,
}
_SEARCH: dict[LeafFunction, Callable[[pa.Array, str], pa.Array]] = {
    LeafFunction.STARTS_WITH: pc.starts_with,
    LeafFunction.CONTAINS: pc.match_substring,
    LeafFunction.ENDS_WITH: pc.ends_with,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare one column with values that it can hold; an empty IN never holds."""

    column: Column
    function: LeafFunction
    values: tuple[Native, ...] = ()

    def mask(self, array: pa.Array) -> pa.BooleanArray:
        """Return where the test holds, which a comparison with null never does."""
        if self.function is LeafFunction.IS_NULL:
            return array.is_null()
        if self.function is LeafFunction.IS_NOT_NULL:
            return array.is_valid()
        if self.function in LISTS:
            return self._listed(array)
        if isinstance(self.column.type, BinaryType):
            array = array.cast(pa.binary())
        if self.function in _SEARCH:
            return _SEARCH[self.function](array, str(self.values[0])).fill_null(False)
        scalar = scalar_of(self.values[0], self.column.type)
        return _COMPARE[self.function](array, scalar).fill_null(False)

    def _listed(self, array: pa.Array) -> pa.BooleanArray:
        if not self.values:
            return pa.array(np.full(len(array), self.function is LeafFunction.NOT_IN))
        scalars = [scalar_of(value, self.column.type) for value in self.values]
        values = pa.array(scalars, scalars[0].type)
        if isinstance(self.column.type, BinaryType):
            array = array.cast(pa.binary())
        found = pc.is_in(array, values)
        if self.function is LeafFunction.IN:
            return found
        return pc.and_(pc.invert(found), array.is_valid())

    @property
    def is_pushed(self) -> bool:
        """Tell whether a server can do something with the test, and means the same by it."""
        if self.function in NULL_CHECKS:
            return True
        if self.function in (LeafFunction.CONTAINS, LeafFunction.ENDS_WITH):
            return False
        if not 0 < len(self.values) <= IN_LITERALS_PUSHED_MAX:
            return False
        match self.column.type:
            case BytesType() | BinaryType():
                return False
            case TimeType(precision=precision):
                # Servers know times by the millisecond.
                return precision <= _MILLIS_PRECISION_MAX
            case FloatType() | DoubleType():
                # Java tells 0.0 from -0.0, and has NaN above all numbers.
                return all(value and not math.isnan(value) for value in map(float, self.values))
            case _:
                return all(map(self._fits, self.values))

    def _fits(self, value: Native) -> bool:
        literal = literal_of(value, self.column.type)
        if not isinstance(literal, int):
            return True
        return -_LONG_MAX <= literal // _NANOS_PER_MILLI <= _LONG_MAX

    def leaf(self) -> Leaf:
        """Return the test as servers take it."""
        literals = tuple(literal_of(value, self.column.type) for value in self.values)
        return Leaf(self.function, self.column.column_id, literals)
