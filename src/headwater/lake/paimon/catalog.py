"""The catalog of a lake: making lake tables, and bringing their columns up to date."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import assert_never

from pypaimon import Schema
from pypaimon.catalog.catalog_exception import (
    ColumnAlreadyExistException,
    ColumnNotExistException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNotExistException,
)
from pypaimon.common.json_util import JSON
from pypaimon.schema.data_types import DataField, DataTypeParser
from pypaimon.schema.schema_change import Move, SchemaChange

from headwater.errors import LakeTableDiffersError, LakeUnreachableError
from headwater.lake.paimon.databases import database_faults
from headwater.lake.paimon.evolution import (
    AddField,
    Change,
    DropField,
    RenameField,
    SetOption,
    new_fields,
    plan_changes,
)
from headwater.lake.paimon.files import FileIO, Files, reaching
from headwater.lake.paimon.handle import (
    Catalog,
    Handle,
    identifier,
    opened_catalog,
    table_handle,
)
from headwater.lake.paimon.partitions import check_partition_types
from headwater.lake.paimon.schema import LakeSchema, schema_from_json
from headwater.lake.paimon.types import check_names, check_types
from headwater.lake.table import LakeTableSpec
from headwater.model.path import TablePath

_ATTEMPTS_MAX = 20
_OVERTAKEN = (
    TableAlreadyExistException,
    ColumnAlreadyExistException,
    ColumnNotExistException,
)
_WRITTEN = "another process has written"
_MAKING = ("Schema in filesystem exists", _WRITTEN)
"""What is said of a table that has files, and no name in the database yet."""


@dataclass(frozen=True, slots=True)
class PaimonCatalog:
    """Look after the lake tables of one lake."""

    config: Mapping[str, str] = field(repr=False)

    def exists(self, path: TablePath) -> bool:
        """Tell whether the lake has such a table."""
        with opened_catalog(self.config) as catalog:
            return table_handle(catalog, path) is not None

    def column_names(self, path: TablePath) -> tuple[str, ...]:
        """Return the names of a lake table's columns; none if there is no such table."""
        with opened_catalog(self.config) as catalog:
            held = _held(table_handle(catalog, path))
        return () if held is None else tuple(field.name for field in held.fields)

    def ensure(self, spec: LakeTableSpec) -> None:
        """Make the lake table, or bring its columns up to date."""
        check_names(spec.schema)
        check_types(spec.schema)
        check_partition_types(spec)
        for _ in range(_ATTEMPTS_MAX):
            with opened_catalog(self.config) as catalog:
                if self._is_done(catalog, spec, _held(table_handle(catalog, spec.path))):
                    return
        if not self.exists(spec.path):
            raise LakeTableDiffersError(
                f"Of the table {spec.path}, the lake has the name and no files, or files and no"
                " name in its catalog.",
                hint="Make the catalog forget the name: headwater lake drop; or remove the files,"
                " which a driver left that ended while it made the table.",
            )
        raise LakeUnreachableError(
            f"The schema of the lake table {spec.path} changed {_ATTEMPTS_MAX} times meanwhile."
        )

    def list_tables(self) -> list[TablePath]:
        """Return the tables of the lake."""
        with opened_catalog(self.config) as catalog, reaching("the catalog of the lake"):
            return [
                TablePath(database, table)
                for database in catalog.list_databases()
                for table in catalog.list_tables(database)
            ]

    def drop(self, path: TablePath) -> None:
        """Drop a lake table and its files; does nothing if there is none."""
        with (
            opened_catalog(self.config) as catalog,
            reaching(f"the table {path} in the lake"),
            suppress(TableNotExistException, DatabaseNotExistException),
        ):
            # Unasked: a database may still name it when its files are gone.
            catalog.drop_table(identifier(path), ignore_if_not_exists=True)

    def _is_done(self, catalog: Catalog, spec: LakeTableSpec, held: LakeSchema | None) -> bool:
        """Make or change the table; tell whether it is as it should be."""
        changes = () if held is None else plan_changes(spec, held)
        if held is not None and not changes:
            return True
        _guard_schemas(catalog, self.config, next_id=0 if held is None else held.schema_id + 1)
        try:
            with reaching(f"the table {spec.path} in the lake"):
                _apply(catalog, spec, changes)
        except _OVERTAKEN:
            return False
        except (LakeUnreachableError, FileExistsError, FileNotFoundError) as fault:
            # Where another one was quicker, look at what it made.
            is_making = held is None and any(each in str(fault) for each in _MAKING)
            is_taken = isinstance(fault.__cause__, database_faults("IntegrityError"))
            if not (is_making or is_taken) and _held(table_handle(catalog, spec.path)) == held:
                raise LakeUnreachableError(
                    f"The table {spec.path} in the lake cannot be made or changed: {fault}."
                ) from fault
            return False
        return True


def _held(handle: Handle | None) -> LakeSchema | None:
    return None if handle is None else schema_from_json(JSON.to_json(handle.table_schema))


def _apply(catalog: Catalog, spec: LakeTableSpec, changes: tuple[Change, ...]) -> None:
    if changes:
        translated = [_translated(change) for change in changes]
        catalog.alter_table(identifier(spec.path), translated)
        return
    catalog.create_database(spec.path.database, ignore_if_exists=True)
    catalog.create_table(identifier(spec.path), _new_schema(spec), ignore_if_exists=False)


def _new_schema(spec: LakeTableSpec) -> Schema:
    fields, options = new_fields(spec)
    comments = [column.comment for column in spec.schema.columns]
    return Schema(
        fields=[
            DataField(each.field_id, each.name, DataTypeParser.parse_data_type(each.type), comment)
            for each, comment in zip(fields, comments, strict=True)
        ],
        partition_keys=list(spec.partition_keys),
        primary_keys=list(spec.schema.primary_key),
        options=options,
        comment=spec.comment,
    )


def _translated(change: Change) -> object:
    match change:
        case AddField(name=name, type=data_type, comment=comment, before=before):
            parsed = DataTypeParser.parse_data_type(data_type)
            move = None if before is None else Move.before(name, before)
            return SchemaChange.add_column(name, parsed, comment, move)
        case RenameField(name=name, new_name=new_name):
            return SchemaChange.rename_column(name, new_name)
        case DropField(name=name):
            return SchemaChange.drop_column(name)
        case SetOption(key=key, value=value):
            return SchemaChange.set_option(key, value)
        case _:
            assert_never(change)


def _guard_schemas(catalog: Catalog, config: Mapping[str, str], *, next_id: int) -> None:
    """Let a catalog that keeps schemas in files write just the next one, and only once.

    What pypaimon does instead overwrites the schema of another process, or follows it with
    changes that were planned for the schema before.
    """
    if hasattr(catalog, "file_io"):
        files = Files.of(catalog.file_io, config)
        catalog.file_io = _GuardedFileIO(catalog.file_io, files, next_id)


class _GuardedFileIO:
    """Be a file system that creates one schema file, and only if it is not there."""

    def __init__(self, inner: FileIO, files: Files, next_id: int) -> None:
        self._inner = inner
        self._files = files
        self._next_id = next_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def try_to_write_atomic(self, path: str, content: str) -> bool:
        """Create the file, or raise an error that makes the catalog give up."""
        is_next = path.endswith(f"/schema-{self._next_id}")
        if not is_next or not self._files.create(path, content.encode()):
            raise RuntimeError(f"{_WRITTEN} {path}")
        return True
