"""Reaching a catalog and its tables, and what is said when they cannot be reached."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    ValidationError,
)
from pyiceberg.table import Table
from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import SQLAlchemyError

from headwater.config.lake import ICEBERG_CATALOG_NAME, shown_address
from headwater.errors import (
    InvalidOptionError,
    LakeNotAllowedError,
    LakeSnapshotMissingError,
    LakeTableDiffersError,
    LakeUnreachableError,
)
from headwater.lake.allowed import without_own
from headwater.lake.damage import decoded
from headwater.lake.iceberg.guard import guarded
from headwater.lake.iceberg.mending import mend_doubles
from headwater.model.path import TablePath

_LOCKED_WAIT_S = 60
_OPEN_ATTEMPTS_MAX = 3
_OPENED_MAX = 16
_METADATA_ENDING = ".metadata.json"
_opened: dict[tuple[tuple[str, str], ...], Catalog] = {}

FAULTS = (OSError, SQLAlchemyError, RESTError)
"""What the world raises through pyiceberg; `requests` raises kinds of OSError."""


@contextmanager
def reached(what: str) -> Iterator[None]:
    """Turn what the world raises into an error that says what could not be reached."""
    try:
        yield
    except FAULTS as fault:
        lines = str(fault).splitlines() or [""]
        raise LakeUnreachableError(f"{what} failed: {type(fault).__name__}: {lines[0]}") from fault


def open_catalog(config: Mapping[str, str]) -> Catalog:
    """Open the catalog that properties describe, by default one in a file of the warehouse."""
    mend_doubles()
    properties = _completed(config)
    key = tuple(sorted(properties.items()))
    file = _sqlite_file(properties.get("uri", ""))
    place = shown_address(properties.get("uri", ICEBERG_CATALOG_NAME))
    with _understood(), reached(f"Opening the Iceberg catalog {place}"):
        if key in _opened and (file is None or file.exists()):
            return _opened[key]
        # Elsewhere a directory that is missing is more likely a mistake in its name.
        if file is not None and _home(properties) is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        catalog = _loaded(properties)
    if isinstance(catalog, SqlCatalog):
        # Holds no connection, but queries that took long to prepare.
        if len(_opened) >= _OPENED_MAX:
            _opened.clear()
        _opened[key] = catalog
    return catalog


@contextmanager
def _understood() -> Iterator[None]:
    """Say it where options describe no catalog, or one that needs a package."""
    try:
        yield
    except (NotInstalledError, ImportError, ValueError) as fault:
        raise InvalidOptionError(
            f"The options of the lake do not open an Iceberg catalog: {fault}.",
            hint="Set `type` and `uri` as pyiceberg takes them, and install the extra of pyiceberg"
            " for that type.",
        ) from fault


def _loaded(properties: dict[str, str]) -> Catalog:
    name = properties.pop("name", ICEBERG_CATALOG_NAME)
    for _ in range(_OPEN_ATTEMPTS_MAX - 1):
        # Two that open a new catalog at once both make its tables, and one of them fails.
        with suppress(SQLAlchemyError):
            return _opened_catalog(name, properties)
    return _opened_catalog(name, properties)


def _opened_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    catalog = _unpooled(load_catalog(name, **without_own(properties)))
    return guarded(catalog, properties)


def load_table(catalog: Catalog, path: TablePath) -> Table:
    """Return a table as the catalog knows it now, or say that there is none."""
    table = found_table(catalog, path)
    if table is None:
        raise LakeSnapshotMissingError(
            f"The Iceberg catalog has no table {path}.",
            hint="It is made when the table is tiered for the first time.",
        )
    return table


def found_table(catalog: Catalog, path: TablePath) -> Table | None:
    """Return a table as the catalog knows it now; None if there is none.

    A catalog in a file of its own warehouse, as data directories have one, may have been moved or
    copied. Its tables still name files by where they were: another's, after a copy.
    """
    home = _home(catalog.properties)
    try:
        with (
            reached(f"Loading the Iceberg table {path}"),
            decoded(f"the Iceberg table {path}", ValidationError),
        ):
            table = catalog.load_table((path.database, path.table))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except LakeNotAllowedError as fault:
        # Where the table or its metadata lies elsewhere as a whole, it is the home that moved.
        is_whole = (fault.location or "").endswith((_METADATA_ENDING, f"/{path.table}"))
        if home is None or not is_whole:
            raise
        raise _moved(path, home) from fault
    except LakeUnreachableError as fault:
        if home is None or not isinstance(fault.__cause__, FileNotFoundError):
            raise
        raise _moved(path, home) from fault
    if home is not None and not _is_below(table.location(), home):
        raise _moved(path, home)
    return table


def _moved(path: TablePath, home: Path) -> LakeTableDiffersError:
    return LakeTableDiffersError(
        f"The files of the Iceberg table {path} are not below {home}, where its catalog is.",
        hint="The data directory was moved or copied, and files of Iceberg name each other by full"
        " paths. Rewrite those with: headwater lake relocate --at DIRECTORY",
    )


def _home(properties: Mapping[str, str]) -> Path | None:
    """Return the local warehouse that holds the very file of its catalog; None if none does."""
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
        # Not `as_uri`: pyiceberg takes locations literally, with no quoting in them.
        properties["warehouse"] = f"file://{Path(warehouse).absolute()}"
    if not {"type", "uri", "py-catalog-impl"} & set(properties):
        place = urlsplit(properties.get("warehouse", ""))
        if place.scheme != "file":
            raise InvalidOptionError(
                "The Iceberg lake has neither a catalog nor a local warehouse.",
                hint="Set `uri` to that of a catalog, or `warehouse` to a directory.",
            )
        properties |= {"type": "sql", "uri": f"sqlite:///{place.path}/catalog.sqlite"}
    uri = properties.get("uri", "")
    if properties.get("type") == "sql" and not uri:
        raise InvalidOptionError(
            "The Iceberg lake is not told the address of its catalog.",
            hint="Give it with --lake uri=…; servers keep one to themselves that has a password.",
        )
    if uri.startswith("sqlite:") and "?" not in uri:
        # Whoever finds the file locked waits for its turn.
        properties["uri"] = f"{uri}?timeout={_LOCKED_WAIT_S}"
    return properties


def _sqlite_file(uri: str) -> Path | None:
    file = uri.partition("?")[0].removeprefix("sqlite:///")
    return Path(file) if uri.startswith("sqlite:///") and file else None


def _unpooled(catalog: Catalog) -> Catalog:
    """Let go of connections after use: they outlive neither a fork nor the file behind them."""
    if isinstance(catalog, SqlCatalog):
        url = catalog.engine.url
        catalog.engine.dispose()
        catalog.engine = create_engine(url, poolclass=NullPool)
    return catalog
