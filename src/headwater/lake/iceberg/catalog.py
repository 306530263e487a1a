"""Iceberg tables made, brought up to date, listed and dropped."""

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from sqlalchemy.exc import IntegrityError

from headwater.errors import LakeMovedError
from headwater.lake.iceberg.evolution import Evolution, Held, evolved
from headwater.lake.iceberg.layout import (
    COLUMN_IDS,
    column_ids_of,
    new_properties,
    new_schema,
    partition_spec,
)
from headwater.lake.iceberg.opening import found_table, reached
from headwater.lake.iceberg.places import remove_all
from headwater.lake.iceberg.updates import commit_updates
from headwater.lake.table import LakeTableSpec
from headwater.model.path import TablePath

_ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True)
class IcebergCatalog:
    """Look after the tables of one catalog."""

    catalog: Catalog

    def exists(self, path: TablePath) -> bool:
        """Tell whether the catalog has such a table."""
        with reached(f"Looking for the Iceberg table {path}"):
            return self.catalog.table_exists(_identifier(path))

    def column_names(self, path: TablePath) -> tuple[str, ...]:
        """Return the names of a table's columns; none if there is no such table."""
        table = found_table(self.catalog, path)
        return () if table is None else tuple(field.name for field in table.schema().fields)

    def ensure(self, spec: LakeTableSpec) -> None:
        """Make the table, or bring its columns up to date."""
        for _ in range(_ATTEMPTS_MAX):
            with reached(f"Bringing the Iceberg table {spec.path} up to date"):
                if self._is_ensured(spec):
                    return
        raise LakeMovedError(f"Others keep changing the Iceberg table {spec.path}.")

    def list_tables(self) -> list[TablePath]:
        """Return the tables of the catalog."""
        with reached("Listing the tables of the Iceberg catalog"):
            found = [
                TablePath(identifier[-2], identifier[-1])
                for namespace in self.catalog.list_namespaces()
                for identifier in self.catalog.list_tables(namespace)
            ]
        return sorted(found)

    def drop(self, path: TablePath) -> None:
        """Drop a table and its files."""
        table = found_table(self.catalog, path)
        if table is None:
            return
        with reached(f"Dropping the Iceberg table {path}"):
            try:
                self.catalog.drop_table(_identifier(path))
            except NoSuchTableError:
                return
            remove_all(table.io, table.location())

    def _is_ensured(self, spec: LakeTableSpec) -> bool:
        """Try once; a loser against another driver looks at what that one made."""
        table = found_table(self.catalog, spec.path)
        if table is None:
            return self._is_created(spec)
        evolution = evolved(_held(table), spec)
        if evolution is None:
            return True
        try:
            _evolve(table, evolution)
        except CommitFailedException:
            return False
        return True

    def _is_created(self, spec: LakeTableSpec) -> bool:
        schema = new_schema(spec)
        parted = partition_spec(spec, schema)
        try:
            if not self.catalog.namespace_exists(spec.path.database):
                self.catalog.create_namespace(spec.path.database)
        except (NamespaceAlreadyExistsError, IntegrityError):
            return False
        try:
            self.catalog.create_table(
                _identifier(spec.path),
                schema,
                partition_spec=parted,
                properties=new_properties(spec, schema),
            )
        except TableAlreadyExistsError:
            return False
        return True


def _identifier(path: TablePath) -> tuple[str, str]:
    return path.database, path.table


def _held(table: Table) -> Held:
    metadata = table.metadata
    return Held(
        schema=metadata.schema(),
        parted=metadata.spec(),
        ids=column_ids_of(metadata.properties),
        column_id_last=metadata.last_column_id,
        schema_id_last=max(schema.schema_id for schema in metadata.schemas),
        format_version=metadata.format_version,
    )


def _evolve(table: Table, evolution: Evolution) -> None:
    metadata = table.metadata
    updates: list[TableUpdate] = [
        SetPropertiesUpdate(updates={COLUMN_IDS: evolution.ids.to_json()})
    ]
    if evolution.schema.fields != metadata.schema().fields:
        updates += [AddSchemaUpdate(schema=evolution.schema), SetCurrentSchemaUpdate()]
    schema_id = {"current-schema-id": metadata.current_schema_id}
    column_id = {"last-assigned-field-id": metadata.last_column_id}
    commit_updates(
        table,
        requirements=(
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertCurrentSchemaId.model_validate(schema_id),
            AssertLastAssignedFieldId.model_validate(column_id),
        ),
        updates=tuple(updates),
    )
