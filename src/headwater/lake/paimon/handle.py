"""What is used of pypaimon's catalogs and tables, and how they are opened."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import (
    DatabaseNotExistException,
    TableNotExistException,
)
from pypaimon.common.identifier import Identifier

from headwater.config.lake import shown_address
from headwater.errors import InvalidOptionError
from headwater.lake.allowed import without_own
from headwater.lake.damage import decoded
from headwater.lake.paimon.databases import database_faults
from headwater.lake.paimon.files import FileIO, reaching
from headwater.model.path import TablePath

_OPEN_ATTEMPTS_MAX = 3


class SnapshotLoader(Protocol):
    """What is used of a catalog that keeps the newest snapshot itself."""

    def load(self) -> object:
        """Return the newest snapshot, None if there is none."""
        ...


class CatalogEnvironment(Protocol):
    """What is used of pypaimon's knowledge of the catalog that a table came from."""

    supports_version_management: bool
    uuid: str | None

    def snapshot_loader(self) -> SnapshotLoader | None:
        """Return what asks the catalog for the newest snapshot."""
        ...

    def snapshot_commit(self, snapshot_manager: object) -> "SnapshotCommit":
        """Return what asks the catalog to commit a snapshot."""
        ...


class SnapshotCommit(Protocol):
    """What is used of a catalog that commits snapshots itself."""

    def commit(
        self, base_snapshot_uuid: str | None, snapshot: object, statistics: list[object]
    ) -> bool:
        """Commit a snapshot behind another one; tell whether that was done."""
        ...


class SchemaManager(Protocol):
    """What is used of pypaimon's knowledge of schemas."""

    def get_schema(self, schema_id: int) -> object | None:
        """Return a schema of the table, None if there is none."""
        ...


class Handle(Protocol):
    """What is used of a table of pypaimon."""

    file_io: FileIO
    table_path: str
    table_schema: object
    schema_manager: SchemaManager
    catalog_environment: CatalogEnvironment

    def snapshot_manager(self) -> object:
        """Return what knows the snapshots of the table."""
        ...


class Catalog(Protocol):
    """What is used of a catalog of pypaimon."""

    def list_databases(self) -> list[str]:
        """Return the names of the databases."""
        ...

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of the tables of a database."""
        ...

    def get_table(self, identifier: Identifier) -> Handle:
        """Open a table."""
        ...

    def create_database(self, name: str, ignore_if_exists: bool) -> None:  # noqa: FBT001
        """Make a database."""
        ...

    def create_table(
        self,
        identifier: Identifier,
        schema: Schema,
        ignore_if_exists: bool,  # noqa: FBT001
    ) -> None:
        """Make a table."""
        ...

    def alter_table(self, identifier: Identifier, changes: list[object]) -> None:
        """Change the schema of a table."""
        ...

    def drop_table(self, identifier: Identifier, ignore_if_not_exists: bool) -> None:  # noqa: FBT001
        """Drop a table and its files."""
        ...


@contextmanager
def opened_catalog(config: Mapping[str, str]) -> Iterator[Catalog]:
    """Open the catalog of a lake, and close what it holds open."""
    place = shown_address(config.get("uri") or config.get("warehouse") or "the lake")
    try:
        with reaching(f"the catalog at {place}"):
            catalog = _created(config)
    except (ValueError, ImportError) as fault:
        raise InvalidOptionError(
            f"The options of the lake do not open a Paimon catalog: {fault}.",
            hint="Give at least 'warehouse', and for other than files 'metastore' and 'uri'.",
        ) from fault
    try:
        yield catalog
    finally:
        if hasattr(catalog, "close"):
            catalog.close()


def _created(config: Mapping[str, str]) -> Catalog:
    """Open a catalog; two that open a new database at once both make its tables, and one fails."""
    for attempt in range(1, _OPEN_ATTEMPTS_MAX + 1):
        try:
            return CatalogFactory.create(without_own(config))
        except database_faults():  # the first attempt loads the driver
            if attempt == _OPEN_ATTEMPTS_MAX:
                raise
    raise AssertionError


def table_handle(catalog: Catalog, path: TablePath) -> Handle | None:
    """Open a table of a lake; None if there is no such table."""
    with reaching(f"the table {path} in the lake"):
        try:
            with decoded(f"the Paimon table {path}"):
                return catalog.get_table(identifier(path))
        except (TableNotExistException, DatabaseNotExistException):
            return None


def identifier(path: TablePath) -> Identifier:
    """Return the name of a table as pypaimon takes it."""
    return Identifier.create(path.database, path.table)
