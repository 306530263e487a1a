"""Which columns and rows of a table somebody may read, worked out from the rules of entries.

Rules narrow: all that apply to a user hold together, whatever other entries allow. They are worked
out once for each set of rules and schema, and remembered until permissions change.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from headwater.config.options import CHANGELOG_IMAGE, ChangelogImage
from headwater.errors import AccessError, HeadwaterError, RequestError, UnsupportedError
from headwater.model import Column, Schema, TableInfo
from headwater.model.acl import Acl, Principal, Rule
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import comparisons_of
from headwater.read.filters import Filter, filter_text
from headwater.rows.sieve import BatchSieve, ValueSieve
from headwater.wire import fluss_pb2 as pb
from headwater.wire.predicates import predicate_from_wire

COMPARISONS_MAX = 1024
"""Comparisons in the filter of one rule."""
COMPILED_MAX = 1000
"""Sets of rules that are remembered as they were worked out."""

Ids = Iterable[int]
Bits = npt.NDArray[np.bool_]


def filter_of(rule: Rule, schema: Schema) -> Filter | None:
    """Return the filter of a rule, or say what in it makes no sense for these columns."""
    if not rule.predicate:
        return None
    try:
        message = pb.Predicate.FromString(rule.predicate)
    except DecodeError as fault:
        raise RequestError(f"The filter of a rule cannot be read: {fault}.") from None
    predicate = predicate_from_wire(message, schema)
    if (count := comparisons_of(predicate)) > COMPARISONS_MAX:
        raise RequestError(f"The filter of a rule has {count} comparisons, not {COMPARISONS_MAX}.")
    return Filter.of_predicate(predicate, schema)


def check_rule(rule: Rule, table: TableInfo) -> None:
    """Refuse a rule that cannot be followed, before it is stored."""
    if rule.table_id != table.table_id:
        raise RequestError(
            f"The rule is for an earlier table {table.path}.", hint="Open the table, try again."
        )
    ids = {column.column_id for column in table.schema.columns}
    if unknown := [each for each in rule.columns if each not in ids]:
        raise RequestError(f"{table.path} has no column with the id {unknown[0]}.")
    if not rule.columns and not rule.predicate:
        raise RequestError("The rule names neither columns nor rows.")
    wanted = filter_of(rule, table.schema)
    if wanted is not None:
        _check_image(wanted, table)


def rule_text(rule: Rule, table: TableInfo | None) -> str:
    """Return a rule as people write it: `(id, amount) where region = 'EU'`."""
    if table is None or table.table_id != rule.table_id:
        return "(nothing: the rule is for an earlier table of this name)"
    names = {column.column_id: column.name for column in table.schema.columns}
    listed = ", ".join(names.get(each, f"column {each}, dropped") for each in rule.columns)
    parts = [f"({listed})"] if rule.columns else []
    try:
        wanted = filter_of(rule, table.schema)
    except HeadwaterError:
        return " ".join([*parts, "where (a column that was dropped)"])
    if wanted is not None:
        parts.append(f"where {filter_text(wanted) or 'true'}")
    return " ".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Restriction:
    """What somebody may read of a table of which they may not read all."""

    rules: tuple[Rule, ...]
    """Equal rules give equal answers, which can be shared."""
    table: TableInfo
    columns: frozenset[int] | None
    """Ids of the columns that may be read; None for all."""
    filters: tuple[Filter, ...]
    who: str

    @property
    def has_filter(self) -> bool:
        """Tell whether there may be rows that are out of sight."""
        return bool(self.filters)

    def require_columns(self, asked: Ids | None) -> None:
        """Refuse columns that may not be read; None asks for all."""
        if self.columns is None:
            return
        held = self.table.schema.columns
        wanted = {column.column_id for column in held} if asked is None else set(asked)
        if not (denied := wanted - self.columns):
            return
        names = {column.column_id: column.name for column in held}
        allowed = ", ".join(names[each] for each in sorted(self.columns) if each in names)
        told = ", ".join(names.get(each, f"column {each}") for each in sorted(denied))
        raise AccessError(
            f"{self.who} may not READ {told} of table {self.table.path}.",
            hint=f"Ask for the columns that may be read: {allowed or 'none'}.",
        )

    def require_whole_changes(self) -> None:
        """Refuse the changes of a table that do not tell which rows go out of sight."""
        for each in self.filters:
            _check_image(each, self.table)

    def batches(
        self,
        schema_of: Callable[[int], Schema],
        *,
        projected: tuple[Column, ...] | None,
        shown: frozenset[int] | None,
        takes_sparse: bool,
    ) -> BatchSieve:
        """Return what takes rows and columns out of batches."""
        mask = self.mask if self.filters else None
        return BatchSieve(schema_of, mask, projected, shown, takes_sparse=takes_sparse)

    def values(self, schema_of: Callable[[int], Schema], asked: Sequence[int]) -> ValueSieve:
        """Return what takes rows and columns out of values of which some columns are read."""
        shown = None if self.columns is None else self.columns & frozenset(asked or self.columns)
        return ValueSieve(schema_of, self.mask if self.filters else None, shown)

    def mask(self, columns: Sequence[pa.Array], schema: Schema) -> Bits:
        """Tell which rows may be seen; a column that they were written without is null."""
        count = len(columns[0]) if columns else 0
        seen = np.ones(count, np.bool_)
        held = {each.column_id: array for each, array in zip(schema.columns, columns, strict=True)}
        for wanted in self.filters:
            looked_at = {test.column.name: test.column for each in wanted.branches for test in each}
            if not looked_at:
                seen &= bool(wanted.branches)
                continue
            fields = arrow_schema(Schema(columns=tuple(looked_at.values())))
            arrays = [
                held[column.column_id] if column.column_id in held else pa.nulls(count, field.type)
                for column, field in zip(looked_at.values(), fields, strict=True)
            ]
            names = list(looked_at)
            mask = wanted.mask(pa.RecordBatch.from_arrays(arrays, names=names))
            seen &= mask.to_numpy(zero_copy_only=False)
        return seen


class Restrictions:
    """Work out what rules allow, once for each set of them and schema."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[Rule, ...], int, Principal], Restriction] = {}

    def of(self, entries: Sequence[Acl], table: TableInfo, *, who: Principal) -> Restriction:
        """Return what entries with rules leave of a table."""
        rules = tuple(acl.rule for acl in entries if acl.rule is not None)
        name = (rules, table.schema_id, who)
        if (known := self._known.get(name)) is not None:
            return known
        if len(self._known) >= COMPILED_MAX:
            self._known.clear()
        made = self._known[name] = _restriction(entries, table, who=str(who))
        return made

    def forget(self) -> None:
        """Forget all, as rules have changed."""
        self._known.clear()


def _restriction(entries: Sequence[Acl], table: TableInfo, *, who: str) -> Restriction:
    rules: list[Rule] = []
    columns: frozenset[int] | None = None
    filters: list[Filter] = []
    for acl in entries:
        assert acl.rule is not None
        filters += _followed(acl, acl.rule, table)
        if acl.rule.columns:
            named = frozenset(acl.rule.columns)
            columns = named if columns is None else columns & named
        rules.append(acl.rule)
    return Restriction(tuple(rules), table, columns, tuple(filters), who)


def _followed(acl: Acl, rule: Rule, table: TableInfo) -> list[Filter]:
    """Return the filter of a rule; one that can no longer be followed lets nothing be read."""
    hint = f"Ask an operator to grant {acl.principal} READ on it anew."
    if rule.table_id != table.table_id:
        raise AccessError(
            f"What {acl.principal} may READ was said of an earlier table {table.path}.", hint=hint
        )
    try:
        found = filter_of(rule, table.schema)
    except HeadwaterError as fault:
        raise AccessError(
            f"What {acl.principal} may READ of table {table.path} is no longer known, as its"
            f" columns have changed: {fault.message}",
            hint=hint,
        ) from None
    return [] if found is None else [found]


def _check_image(wanted: Filter, table: TableInfo) -> None:
    """Refuse a filter on what changes, where the log does not tell what was there before."""
    if not table.is_keyed or set(wanted.columns) <= set(table.schema.primary_key):
        return
    image = CHANGELOG_IMAGE.required(table.descriptor.properties)
    if image is ChangelogImage.WAL:
        raise UnsupportedError(
            f"The rows of {table.path} cannot be narrowed by other columns than those of its"
            f" primary key: '{CHANGELOG_IMAGE.name}' is {image}, so its log does not tell which"
            " rows go out of sight.",
            hint="Filter by the primary key, or create the table with the full image.",
        )
