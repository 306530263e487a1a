"""Tables in DataFusion: native plans, a table function and a catalog.

DataFusion reads the files of the lake itself; the rows of logs reach it as pyarrow datasets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionContext, col, lit
from datafusion.catalog import CatalogProvider, Schema, SchemaProvider, Table

from headwater.client.sync.client import Client
from headwater.client.sync.scan import View
from headwater.engines import arrow, storages
from headwater.errors import HeadwaterError
from headwater.model import Column
from headwater.read.plan import local_path
from headwater.read.split import FileGroup, NativePlan
from headwater.read.view import MODES
from headwater.runtime.tasks import elsewhere

# Files of the lake as data frames, read by DataFusion itself.

_VIEWS = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFusionShape:
    """Say what the rows of a table look like, in the types that DataFusion reads fastest."""

    columns: tuple[Column, ...]
    schema: pa.Schema
    plain: pa.Schema
    """In the types of the table: pyarrow cannot cast to all of the others."""

    @classmethod
    def of(cls, columns: tuple[Column, ...], schema: pa.Schema) -> "DataFusionShape":
        """Return the shape of rows of a schema: texts as DataFusion itself has them of files."""
        fields = [field.with_type(_VIEWS.get(field.type, field.type)) for field in schema]
        return cls(columns=columns, schema=pa.schema(fields), plain=schema)


def cast(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """Give the columns of a schema the types that they have there."""
    return frame.select(
        *(col(quoted(field.name)).cast(field.type).alias(field.name) for field in schema)
    )


def frames_of(
    session: SessionContext, group: FileGroup, shape: DataFusionShape
) -> Iterator[DataFrame]:
    """Yield the rows of files without those that are deleted, a frame for each file.

    DataFusion casts columns to the types of the schema that it is given, and fills in nulls for
    those that a file has not. It has no numbers of rows, so files with deletes are read for it.
    """
    held, names = _held(group, shape.columns, shape.schema), dict(group.names)
    known = {each.name: names[each.column_id] for each in shape.columns if each.column_id in names}
    for file in group.files:
        if file.deletes:
            rows = arrow.FileRows(file, shape.plain, known)
            yield cast(session.read_table(Table(arrow.RowsDataset(rows))), shape.schema)
        else:
            # As a URI: in paths, DataFusion takes some characters for patterns.
            path = Path(local_path(file.path)).as_uri()
            yield _shaped(session.read_parquet(path, schema=held), group, shape)


def _held(group: FileGroup, columns: tuple[Column, ...], schema: pa.Schema) -> pa.Schema:
    """Return the columns of the table under the names that they have in the files."""
    names = dict(group.names)
    return pa.schema(
        [
            schema.field(column.name).with_name(names[column.column_id])
            for column in columns
            if column.column_id in names
        ]
    )


def _shaped(frame: DataFrame, group: FileGroup, shape: DataFusionShape) -> DataFrame:
    """Give columns the names and the order that they have in the table."""
    names = dict(group.names)
    if [names.get(column.column_id) for column in shape.columns] == shape.schema.names:
        return frame
    return frame.select(
        *(
            col(quoted(names[column.column_id])).alias(column.name)
            if column.column_id in names
            else lit(None).cast(shape.schema.field(column.name).type).alias(column.name)
            for column in shape.columns
        )
    )


def quoted(name: str) -> str:
    """Return the name of a column so that DataFusion takes it letter by letter."""
    return '"' + name.replace('"', '""') + '"'


# A view of a table as a view of DataFusion: files read by itself, the rest by Headwater.


def data_frame(session: SessionContext, view: View) -> DataFrame:
    """Return the rows of a view.

    1. Plan: files that DataFusion reads, changes of the log, and what only Headwater can read.
    2. Scan files, without rows that the log changed. 3. Put the other rows beside them.
    """
    plan = view.native_plan()
    shape = DataFusionShape.of(view.value.table.schema.columns, view.schema)
    frames = list(_lake(session, view, plan, shape=shape))
    if plan.tail or not (frames or plan.others):
        frames.append(cast(_read(session, arrow.TailRows(view, plan.tail)), shape.schema))
    if plan.others:
        frames.append(cast(_read(session, arrow.SplitRows(view, plan.others)), shape.schema))
    return reduce(lambda left, right: left.union(right), frames)


def _read(session: SessionContext, rows: arrow.RowSource) -> DataFrame:
    return session.read_table(Table(arrow.RowsDataset(rows)))


def _lake(
    session: SessionContext, view: View, plan: NativePlan, *, shape: DataFusionShape
) -> Iterator[DataFrame]:
    for group in plan.groups:
        frames = frames_of(session, group, shape)
        if not group.is_touched:
            yield from frames
            continue
        changed = view.changed_keys(storages.changed_in(plan.tail, group))
        for frame in frames:
            yield _without(session, frame, changed, key=plan.key)


def _without(
    session: SessionContext, frame: DataFrame, changed: pa.Table, *, key: Sequence[str]
) -> DataFrame:
    """Leave rows with changed keys out; from memory, so that DataFusion knows that they are few."""
    keys = session.read_batches(changed.combine_chunks().to_batches())
    return frame.join(keys, on=[quoted(name) for name in key], how="anti")


# Tables of a storage as tables of DataFusion, each time as they are then.

T = TypeVar("T")


def table_of(source: storages.Source, asked: storages.ViewRequest) -> Table:
    """Return the rows of a table, at the position that was asked for.

    DataFusion calls this while it plans a query, when it can be asked nothing in its thread. The
    session only makes plans; the one that asks runs them.
    """
    session = SessionContext()
    return in_words(
        lambda: elsewhere(lambda: data_frame(session, storages.view_of(source, asked)).into_view())
    )


def in_words(work: Callable[[], T]) -> T:
    """Have a fault of the storage told as DataFusion tells its own."""
    try:
        return work()
    except HeadwaterError as fault:
        raise ValueError(storages.told(fault)) from fault


# The table function `fluss_read` of DataFusion.

NAME = "fluss_read"
_WAYS = (
    f"Write {NAME}(bootstrap, database, table[, mode[, token]]), or {NAME}(database, table[, mode[,"
    " token]]) where a storage was installed."
)
_Texts = Sequence[str | None]
_SHORT = (2, 3, 4)
_FULL = (3, 4, 5)
_ONLY_SHORT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FlussRead:
    """Read tables: of the storage that each call names, or of the one that is installed."""

    at: storages.StoragePlace | None = None
    lake: Mapping[str, str] | None = field(default=None, repr=False)

    def __call__(self, *arguments: Expr) -> Table:
        """Return the rows of a table as they are now, or at the position of a token."""
        try:
            return self._table([_text(argument) for argument in arguments])
        except ValueError as fault:
            # DataFusion shows people the traceback too, which is no help to them.
            raise fault.with_traceback(None) from None

    def _table(self, given: _Texts) -> Table:
        if self.at is not None and len(given) in _SHORT and _is_short(given):
            return self._read(self.at, given)
        if len(given) not in _FULL:
            raise ValueError(f"{NAME} was called with {len(given)} arguments. {_WAYS}")
        return self._read(_named(given[0], "bootstrap"), given[1:])

    def _read(self, at: storages.StoragePlace, given: _Texts) -> Table:
        database, table, *position = given
        asked = storages.ViewRequest(
            table=f"{_part(database)}.{_part(table)}",
            position=_position(*position),
            lake=self.lake,
        )
        return table_of(at, asked)


def _is_short(given: _Texts) -> bool:
    """Tell whether arguments begin with a database, and not with a storage."""
    if len(given) == _ONLY_SHORT:
        return True
    first, _, third, *_ = given
    if first is None or any(mark in first for mark in ":/\\"):
        return False
    # A directory may be called like a database; then a mode behind the table decides.
    return third is None or third.lower() in MODES or not Path(first).is_dir()


def _position(mode: str | None = None, token: str | None = None) -> storages.ViewPosition:
    return storages.ViewPosition(mode=(mode or "union").lower(), token=token or None)


def _part(name: str | None) -> str:
    return _named(name, "database and table")


def _named(text: str | None, what: str) -> str:
    if not text:
        raise ValueError(f"{NAME} was called without {what}. {_WAYS}")
    return text


def _text(argument: Expr) -> str | None:
    try:
        value: object = argument.python_value()
    except TypeError as fault:
        raise ValueError(f"{NAME} takes constant texts, not {argument}. {_WAYS}") from fault
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{NAME} takes texts, not {value!r}. {_WAYS}")


# A storage as a catalog of DataFusion: `FROM hw.database.table`, as it is at each query.


class CallableNames(list[str]):
    """Be names that can be called for: DataFusion says that it does, and takes them as they are."""

    def __call__(self) -> set[str]:
        """Give them as a plain set."""
        return set(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage(CatalogProvider):
    """Be the databases of a storage."""

    at: storages.StoragePlace
    lake: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def client(self) -> Client:
        """The open storage, shared by all who name the same place."""
        return storages.opened(self.at, lake=self.lake)

    def schema_names(self) -> set[str]:
        """List the databases, which DataFusion calls schemas."""
        return in_words(lambda: set(self.client.list_databases()))

    def schema(self, name: str) -> Schema | None:
        """Return a database, if there is one of that name."""
        return Database(storage=self, name=name) if name in self.schema_names() else None  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Database(SchemaProvider):
    """Be the tables of a database."""

    storage: Storage
    name: str

    @property
    def table_names(self) -> CallableNames:
        """The tables of the database, asked for anew each time."""
        return CallableNames(in_words(lambda: self.storage.client.list_tables(self.name)))

    def table_exist(self, name: str) -> bool:
        """Tell whether there is such a table."""
        return in_words(lambda: self.storage.client.table_exists(f"{self.name}.{name}"))

    def table(self, name: str) -> Table | None:
        """Return the rows of a table as they are now."""
        return table_of(self.storage.client, storages.ViewRequest(table=f"{self.name}.{name}"))
