"""Reaching a catalog and its tables, and what is said when they cannot be reached."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.table import Table
from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import SQLAlchemyError

from headwater.errors import InvalidOptionError, LakeSnapshotMissingError, LakeUnreachableError
from headwater.lake.iceberg.mending import mend_doubles
from headwater.model.path import TablePath

# What Apache Fluss calls its catalog, since catalogs in a database keep tables under that name.
NAME_DEFAULT = "fluss-iceberg-catalog"
_LOCKED_WAIT_S = 60
_OPEN_ATTEMPTS_MAX = 3
_OPENED_MAX = 16
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
    with reached(f"Opening the Iceberg catalog {properties.get('uri', NAME_DEFAULT)}"):
        if key in _opened and (file is None or file.exists()):
            return _opened[key]
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        catalog = _loaded(properties)
    if isinstance(catalog, SqlCatalog):
        # Holds no connection, but queries that took long to prepare.
        if len(_opened) >= _OPENED_MAX:
            _opened.clear()
        _opened[key] = catalog
    return catalog


def _loaded(properties: dict[str, str]) -> Catalog:
    name = properties.pop("name", NAME_DEFAULT)
    for _ in range(_OPEN_ATTEMPTS_MAX - 1):
        # Two that open a new catalog at once both make its tables, and one of them fails.
        with suppress(SQLAlchemyError):
            return _unpooled(load_catalog(name, **properties))
    return _unpooled(load_catalog(name, **properties))


def load_table(catalog: Catalog, path: TablePath) -> Table:
    """Return a table as the catalog knows it now, or say that there is none."""
    try:
        with reached(f"Loading the Iceberg table {path}"):
            return catalog.load_table((path.database, path.table))
    except NoSuchTableError as fault:
        raise LakeSnapshotMissingError(
            f"The Iceberg catalog has no table {path}.",
            hint="It is made when the table is tiered for the first time.",
        ) from fault


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
