"""Reach an Iceberg catalog; create, update, list and drop its tables."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg import exceptions
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.reader import DoubleReader
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table, update
from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from headwater import errors
from headwater.config.lake import ICEBERG_CATALOG_NAME, shown_address
from headwater.lake.files import decoded
from headwater.lake.iceberg import layout
from headwater.lake.iceberg.files import commit_updates, guarded, remove_all
from headwater.lake.options import without_own
from headwater.lake.spi import LakeTableSpec
from headwater.model import TablePath

# Fix for a fault of pyiceberg: its fast decoder reads doubles of manifests as floats.
#
# A table partitioned by a DOUBLE would lose rows: 0.1 is read as 0.10000000149011612, no filter
# finds that partition, and a rewritten manifest holds the wrong value for good.

_DOUBLE = struct.Struct("<d")
_PROBE = 0.1


def mend_doubles() -> None:
    """Make pyiceberg read doubles in full, unless it does so by itself."""
    reader = object.__new__(DoubleReader)
    if reader.read(new_decoder(_DOUBLE.pack(_PROBE))) != _PROBE:
        setattr(DoubleReader, "read", _read_double)  # noqa: B010 (a method is not assigned to)


def _read_double(_: DoubleReader, decoder: BinaryDecoder) -> float:
    number: float = _DOUBLE.unpack(decoder.read(_DOUBLE.size))[0]
    return number


# Reaching a catalog and its tables, and the errors if they cannot be reached.

_LOCKED_WAIT_S = 60
_OPEN_ATTEMPTS_MAX = 3
_OPENED_MAX = 16
_METADATA_ENDING = ".metadata.json"
_opened: dict[tuple[tuple[str, str], ...], Catalog] = {}

_NO_TABLES = "no such table: iceberg_"
FAULTS = (OSError, SQLAlchemyError, exceptions.RESTError)
"""What the outside world raises through pyiceberg; `requests` raises kinds of OSError."""


@contextmanager
def reached(what: str) -> Iterator[None]:
    """Translate outside errors into one that says what could not be reached."""
    try:
        yield
    except FAULTS as fault:
        lines = str(fault).splitlines() or [""]
        if _NO_TABLES in lines[0]:
            raise errors.LakeUnreachableError(
                f"{what} failed: the file of the lake's catalog was deleted or replaced.",
                hint="Restore it from a backup. Otherwise the next round creates a new one, and "
                "lake tables from what logs still hold.",
            ) from fault
        raise errors.LakeUnreachableError(
            f"{what} failed: {type(fault).__name__}: {lines[0]}"
        ) from fault


def open_catalog(config: Mapping[str, str]) -> Catalog:
    """Open the catalog that properties describe, by default one in a file of the warehouse."""
    mend_doubles()
    properties = _completed(config)
    key = tuple(sorted(properties.items()))
    file = _sqlite_file(properties.get("uri", ""))
    place = shown_address(properties.get("uri", ICEBERG_CATALOG_NAME))
    with _understood(), reached(f"Opening the Iceberg catalog {place}"):
        if key in _opened and (file is None or _has_content(file)):
            return _opened[key]
        # For a remote warehouse a missing directory is more likely a typo.
        if file is not None and _home(properties) is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        catalog = _loaded(properties)
    if isinstance(catalog, SqlCatalog):
        # Holds no connection, only prepared queries that took long to make.
        if len(_opened) >= _OPENED_MAX:
            _opened.clear()
        _opened[key] = catalog
    return catalog


@contextmanager
def _understood() -> Iterator[None]:
    """Translate the error for options that describe no catalog, or one that needs a package."""
    try:
        yield
    except (exceptions.NotInstalledError, ImportError, ValueError) as fault:
        raise errors.InvalidOptionError(
            f"The options of the lake do not open an Iceberg catalog: {fault}.",
            hint=(
                "Set `type` and `uri` as pyiceberg documents them, and install "
                "pyiceberg's extra for that type."
            ),
        ) from fault


def _loaded(properties: dict[str, str]) -> Catalog:
    name = properties.pop("name", ICEBERG_CATALOG_NAME)
    for _ in range(_OPEN_ATTEMPTS_MAX - 1):
        # If two processes open a new catalog at once, both create its tables and one fails.
        with suppress(SQLAlchemyError):
            return _opened_catalog(name, properties)
    return _opened_catalog(name, properties)


def _opened_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    catalog = _unpooled(load_catalog(name, **without_own(properties)))
    return guarded(catalog, properties)


def load_table(catalog: Catalog, path: TablePath) -> Table:
    """Load a table as the catalog knows it now; raises if there is none."""
    table = found_table(catalog, path)
    if table is None:
        raise errors.LakeSnapshotMissingError(
            f"The Iceberg catalog has no table {path}.",
            hint="It is created when the table is tiered for the first time.",
        )
    return table


def found_table(catalog: Catalog, path: TablePath) -> Table | None:
    """Load a table as the catalog knows it now; None if there is none.

    A catalog in a file of its own warehouse, as in data directories, may have been moved or copied.
    Its tables still name files at the old place, which after a copy belong to another.
    """
    home = _home(catalog.properties)
    try:
        with (
            reached(f"Loading the Iceberg table {path}"),
            decoded(f"the Iceberg table {path}", exceptions.ValidationError),
        ):
            table = catalog.load_table((path.database, path.table))
    except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
        return None
    except errors.LakeNotAllowedError as fault:
        # If the table or its metadata lies elsewhere as a whole, it is the home that moved.
        is_whole = (fault.location or "").endswith((_METADATA_ENDING, f"/{path.table}"))
        if home is None or not is_whole:
            raise
        raise _moved(path, home) from fault
    except errors.LakeUnreachableError as fault:
        if home is None or not isinstance(fault.__cause__, FileNotFoundError):
            raise
        raise _moved(path, home) from fault
    if home is not None and not _is_below(table.location(), home):
        raise _moved(path, home)
    return table


def _moved(path: TablePath, home: Path) -> errors.LakeTableDiffersError:
    return errors.LakeTableDiffersError(
        f"The files of the Iceberg table {path} are not below {home}, where its catalog is.",
        hint=(
            "The data directory was moved or copied, but Iceberg files refer to each "
            "other by full paths. Rewrite those with: headwater lake relocate --at "
            "DIRECTORY"
        ),
    )


def _home(properties: Mapping[str, str]) -> Path | None:
    """The local warehouse that contains its own catalog file; None if there is none."""
    file = _sqlite_file(properties.get("uri", ""))
    place = urlsplit(properties.get("warehouse", ""))
    if file is None or place.scheme not in ("", "file"):
        return None
    home = Path(place.path)
    return home if home in file.parents else None


def _is_below(location: str, home: Path) -> bool:
    return home in Path(urlsplit(location).path).parents


def _completed(config: Mapping[str, str]) -> dict[str, str]:
    properties = dict(config)
    warehouse = properties.get("warehouse", "")
    if warehouse and not urlsplit(warehouse).scheme:
        # Not `as_uri`: pyiceberg takes locations literally, without percent-encoding.
        properties["warehouse"] = f"file://{Path(warehouse).absolute()}"
    if not {"type", "uri", "py-catalog-impl"} & set(properties):
        place = urlsplit(properties.get("warehouse", ""))
        if place.scheme != "file":
            raise errors.InvalidOptionError(
                "The Iceberg lake has neither a catalog nor a local warehouse.",
                hint="Set `uri` to that of a catalog, or `warehouse` to a directory.",
            )
        properties |= {"type": "sql", "uri": f"sqlite:///{place.path}/catalog.sqlite"}
    uri = properties.get("uri", "")
    if properties.get("type") == "sql" and not uri:
        raise errors.InvalidOptionError(
            "The address of the Iceberg lake's catalog is unknown.",
            hint=(
                "Set it with --lake uri=…; servers do not hand out an address that "
                "contains a password."
            ),
        )
    if uri.startswith("sqlite:") and "?" not in uri:
        # Wait if the file is locked.
        properties["uri"] = f"{uri}?timeout={_LOCKED_WAIT_S}"
    return properties


def _has_content(file: Path) -> bool:
    """Tell whether a file is what it was: SQLite leaves an empty one where it was deleted."""
    return file.exists() and file.stat().st_size > 0


def _sqlite_file(uri: str) -> Path | None:
    file = uri.partition("?")[0].removeprefix("sqlite:///")
    return Path(file) if uri.startswith("sqlite:///") and file else None


def _unpooled(catalog: Catalog) -> Catalog:
    """Close connections after use: they survive neither a fork nor the removal of their file."""
    if isinstance(catalog, SqlCatalog):
        url = catalog.engine.url
        catalog.engine.dispose()
        catalog.engine = create_engine(url, poolclass=NullPool)
    return catalog


# The tables of a catalog.

_ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True)
class IcebergCatalog:
    """Manages the tables of one catalog."""

    catalog: Catalog

    def exists(self, path: TablePath) -> bool:
        """Tell whether the catalog has such a table."""
        with reached(f"Looking for the Iceberg table {path}"):
            return self.catalog.table_exists(_identifier(path))

    def column_names(self, path: TablePath) -> tuple[str, ...]:
        """Column names of a table; empty if there is no such table."""
        table = found_table(self.catalog, path)
        return () if table is None else tuple(field.name for field in table.schema().fields)

    def ensure(self, spec: LakeTableSpec) -> None:
        """Create the table, or update its columns."""
        for _ in range(_ATTEMPTS_MAX):
            with reached(f"Updating the Iceberg table {spec.path}"):
                if self._is_ensured(spec):
                    return
        raise errors.LakeMovedError(f"Others keep changing the Iceberg table {spec.path}.")

    def list_tables(self) -> list[TablePath]:
        """List the tables of the catalog."""
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
            except exceptions.NoSuchTableError:
                return
            remove_all(table.io, table.location())

    def _is_ensured(self, spec: LakeTableSpec) -> bool:
        """Try once; after losing a race against another driver, look at what that one made."""
        table = found_table(self.catalog, spec.path)
        if table is None:
            return self._is_created(spec)
        evolution = layout.evolved(_held(table), spec)
        if evolution is None:
            return True
        try:
            _evolve(table, evolution)
        except exceptions.CommitFailedException:
            return False
        return True

    def _is_created(self, spec: LakeTableSpec) -> bool:
        schema = layout.new_schema(spec)
        parted = layout.partition_spec(spec, schema)
        try:
            if not self.catalog.namespace_exists(spec.path.database):
                self.catalog.create_namespace(spec.path.database)
        except (exceptions.NamespaceAlreadyExistsError, IntegrityError):
            return False
        try:
            self.catalog.create_table(
                _identifier(spec.path),
                schema,
                partition_spec=parted,
                properties=layout.new_properties(spec, schema),
            )
        except exceptions.TableAlreadyExistsError:
            return False
        return True


def _identifier(path: TablePath) -> tuple[str, str]:
    return path.database, path.table


def _held(table: Table) -> layout.IcebergTableState:
    metadata = table.metadata
    return layout.IcebergTableState(
        schema=metadata.schema(),
        parted=metadata.spec(),
        ids=layout.column_ids_of(metadata.properties),
        column_id_last=metadata.last_column_id,
        schema_id_last=max(schema.schema_id for schema in metadata.schemas),
        format_version=metadata.format_version,
    )


def _evolve(table: Table, evolution: layout.Evolution) -> None:
    metadata = table.metadata
    updates: list[update.TableUpdate] = [
        update.SetPropertiesUpdate(updates={layout.COLUMN_IDS: evolution.ids.to_json()})
    ]
    if evolution.schema.fields != metadata.schema().fields:
        updates += [
            update.AddSchemaUpdate(schema=evolution.schema),
            update.SetCurrentSchemaUpdate(),
        ]
    schema_id = {"current-schema-id": metadata.current_schema_id}
    column_id = {"last-assigned-field-id": metadata.last_column_id}
    commit_updates(
        table,
        requirements=(
            update.AssertTableUUID(uuid=metadata.table_uuid),
            update.AssertCurrentSchemaId.model_validate(schema_id),
            update.AssertLastAssignedFieldId.model_validate(column_id),
        ),
        updates=tuple(updates),
    )
