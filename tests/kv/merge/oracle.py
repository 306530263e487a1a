"""A naive merge: one record after the other over a dict of rows, as Apache Fluss describes it."""

import math
import struct
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext

from headwater.config.options import ChangelogImage, DeleteBehavior, MergeEngine
from headwater.model.aggregate import AggregateKind as Kind
from headwater.model.schema import Schema
from headwater.model.types import DecimalType, DoubleType, FloatType

BITS = {"TinyIntType": 8, "SmallIntType": 16, "IntType": 32, "BigIntType": 64}


@dataclass
class Oracle:
    schema: Schema
    engine: MergeEngine | None = None
    deletes: DeleteBehavior = DeleteBehavior.ALLOW
    image: ChangelogImage = ChangelogImage.FULL
    version: int | None = None
    targets: frozenset[int] | None = None
    next_id: int = 1

    def apply(self, state, records):
        """Apply (key, row or None) to a copy of the state and return it with the changes."""
        state, changes = dict(state), []
        for key, row in records:
            if row is None:
                self._delete(state, key, changes)
            else:
                self._upsert(state, key, row, changes)
        return state, changes

    def _delete(self, state, key, changes):
        if self.deletes is not DeleteBehavior.ALLOW or key not in state:
            return
        old = state[key]
        others = [value for at, value in enumerate(old) if not self._is_target(at)]
        if all(value is None for value in others):
            del state[key]
            changes.append(("-D", old))
            return
        new = tuple(
            None if self._is_target(at) and not self._is_key(at) else value
            for at, value in enumerate(old)
        )
        self._update(state, key, new, changes)

    def _upsert(self, state, key, row, changes):
        if key not in state:
            new = self._with_id(self._masked(row))
            state[key] = new
            is_blind = self._is_wal and self.engine is None and self._is_full
            changes.append(("+U" if is_blind else "+I", new))
            return
        new = self._merged(state[key], row)
        if new is not None:
            self._update(state, key, new, changes)

    def _update(self, state, key, new, changes):
        if not self._is_wal:
            changes.append(("-U", state[key]))
        changes.append(("+U", new))
        state[key] = new

    def _merged(self, old, row):
        """Return the new row, or None where the old one stays."""
        if self.engine is MergeEngine.FIRST_ROW:
            return None
        if self.engine is MergeEngine.VERSIONED:
            return row if _version(row[self.version]) >= _version(old[self.version]) else None
        if self.engine is MergeEngine.AGGREGATION:
            return tuple(self._aggregated(at, old[at], row[at]) for at in range(len(row)))
        if self._is_full:
            return row
        if all(self._is_key(at) for at in self.targets):
            return None
        return tuple(row[at] if self._is_target(at) else old[at] for at in range(len(row)))

    def _aggregated(self, at, old, new):
        if not self._is_target(at):
            return old
        if self._is_key(at):
            return new
        column = self.schema.columns[at]
        kind = column.aggregate.kind if column.aggregate else Kind.LAST_VALUE_IGNORE_NULLS
        if kind is Kind.LAST_VALUE:
            return new
        if old is None or new is None:
            return new if old is None else old
        return FUNCTIONS[kind](column, old, new)

    def _masked(self, row):
        return tuple(value if self._is_target(at) else None for at, value in enumerate(row))

    def _with_id(self, row):
        if not self.schema.auto_increment:
            return row
        at = self.schema.index_of(self.schema.auto_increment[0])
        row = (*row[:at], self.next_id, *row[at + 1 :])
        self.next_id += 1
        return row

    def _is_target(self, at):
        return self.targets is None or at in self.targets

    def _is_key(self, at):
        return self.schema.columns[at].name in self.schema.primary_key

    @property
    def _is_full(self):
        return self.targets is None or len(self.targets) == len(self.schema.columns)

    @property
    def _is_wal(self):
        return self.image is ChangelogImage.WAL


def _version(value):
    return -(2**63) if value is None else value


def arithmetic(operation):
    def fold(column, old, new):
        if isinstance(column.type, DecimalType):
            return _decimal(column.type, operation, old, new)
        if isinstance(column.type, DoubleType):
            return operation(old, new)
        if isinstance(column.type, FloatType):
            return _float32(operation(old, new))
        modulus = 2 ** BITS[type(column.type).__name__]
        result = operation(old, new) % modulus
        return result - modulus if result >= modulus // 2 else result

    return fold


def _decimal(data_type, operation, old, new):
    with localcontext(prec=90):
        result = operation(old, new)
        rounded = result.quantize(Decimal(1).scaleb(-data_type.scale), ROUND_HALF_UP)
        limit = Decimal(10) ** (data_type.precision - data_type.scale)
        return rounded + 0 if abs(rounded) < limit else None


def _float32(number):
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _order(value):
    """Order as Java's compare and as bytes."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, float):
        return value
    bits = struct.unpack("<q", struct.pack("<d", value))[0]
    if math.isnan(value):
        return 2**63
    return bits if bits >= 0 else -(2**63) - bits - 1


FUNCTIONS = {
    Kind.SUM: arithmetic(lambda old, new: old + new),
    Kind.PRODUCT: arithmetic(lambda old, new: old * new),
    Kind.MAX: lambda column, old, new: new if _order(old) < _order(new) else old,
    Kind.MIN: lambda column, old, new: old if _order(old) < _order(new) else new,
    Kind.LAST_VALUE_IGNORE_NULLS: lambda column, old, new: new,
    Kind.FIRST_VALUE: lambda column, old, new: old,
    Kind.FIRST_VALUE_IGNORE_NULLS: lambda column, old, new: old,
    Kind.LISTAGG: lambda column, old, new: old + column.aggregate.separator + new,
    Kind.STRING_AGG: lambda column, old, new: old + column.aggregate.separator + new,
    Kind.BOOL_AND: lambda column, old, new: old and new,
    Kind.BOOL_OR: lambda column, old, new: old or new,
}
