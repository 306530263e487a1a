"""Lake catalogs: the properties that a server has, and the part of them that clients may see."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from headwater.config.options import LakeFormat
from headwater.errors import InvalidOptionError, RequestError
from headwater.errors.tree import HIDDEN, redacted

SERVED_FORMATS = (LakeFormat.ICEBERG, LakeFormat.PAIMON)
SERVER_PREFIX = "datalake."
TABLE_PREFIX = "table.datalake."
# The catalog name of Apache Fluss; catalogs in a database store tables under it.
ICEBERG_CATALOG_NAME = "fluss-iceberg-catalog"
_SECRET_WORDS = (
    "password",
    "passwd",
    "secret",
    "key",
    "token",
    "credential",
    "authorization",
    "cookie",
    "signature",
    "connection-string",
)
# Texts that contain a secret whatever they are called: of Azure, of JDBC, of a header.
_SECRET_VALUE = re.compile(
    r"(accountkey|sharedaccess(key|signature)|password|pwd)=|^\s*(bearer|basic|negotiate)\s+\S",
    re.IGNORECASE,
)
_HEADER = "header."
# Paimon's options for sharing a database between catalogs and for column names; no secrets.
_NO_SECRETS = frozenset({"catalog-key", "bucket-key", "primary-key"})
_LAKE_PREFIXES = tuple(
    f"{before}{each}." for each in SERVED_FORMATS for before in (TABLE_PREFIX, "")
)
_FILE_MARK = "@"
_VARIABLE_MARK = "env:"
_JSON_MARK = "{"
_SQL_ADDRESSES = ("sqlite:", "postgresql:", "postgresql+")


def check_lake_properties(default_format: str, properties: Mapping[str, str]) -> None:
    """Reject an unknown lake format, and properties that belong to no format."""
    if default_format not in SERVED_FORMATS:
        raise InvalidOptionError(
            f"'datalake_format' is {default_format!r}, which is not a lake format.",
            hint="Use iceberg or paimon.",
        )
    prefixes = tuple(f"{SERVER_PREFIX}{each}." for each in SERVED_FORMATS)
    for name in properties:
        if not name.startswith(prefixes):
            raise InvalidOptionError(
                f"{name!r} is not a lake property.",
                hint=f"Lake properties start with {' or '.join(prefixes)}",
            )


def lake_config(
    lake: LakeFormat, properties: Mapping[str, str], *, directory: Path
) -> dict[str, str]:
    """Return the catalog properties of a format; by default the lake is below a directory."""
    given = _within(properties, f"{SERVER_PREFIX}{lake}.")
    match lake:
        case LakeFormat.ICEBERG:
            return {**_iceberg_defaults(given, directory.absolute()), **given}
        case LakeFormat.PAIMON if "metastore" not in given and "uri" not in given:
            return {"warehouse": str(directory.absolute() / "lake" / "paimon"), **given}
        case _:
            return given


def local_catalog(lake: LakeFormat, config: Mapping[str, str]) -> Path | None:
    """Return the file or directory that a catalog on this machine keeps its tables in."""
    uri, warehouse = config.get("uri", ""), config.get("warehouse", "")
    if lake is LakeFormat.PAIMON:
        is_files = config.get("metastore", "filesystem") == "filesystem"
        return _local(warehouse) if is_files else None
    if uri.startswith("sqlite:///"):
        return Path(uri.partition("?")[0].removeprefix("sqlite:///"))
    if uri or "type" in config or "py-catalog-impl" in config:
        return None
    home = _local(warehouse)
    return None if home is None else home / "catalog.sqlite"


def _local(location: str) -> Path | None:
    parts = urlsplit(location)
    return Path(parts.path) if location and parts.scheme in ("", "file") else None


def told_properties(lake: LakeFormat, config: Mapping[str, str]) -> dict[str, str]:
    """Return a catalog's properties as table options without secrets, for clients."""
    return {
        f"{TABLE_PREFIX}{lake}.{name}": value for name, value in without_secrets(config).items()
    }


def without_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """Drop the properties that are secrets."""
    return {name: value for name, value in config.items() if not is_secret(name, value)}


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Hide secrets in table options, in case somebody set one there."""
    return {name: _shown(name, value) for name, value in options.items()}


def _shown(name: str, value: str) -> str:
    shown = redacted(value)
    is_of_lake = name.startswith(_LAKE_PREFIXES)
    return HIDDEN if is_of_lake and shown == value and is_secret(name, value) else shown


def shown_address(address: str) -> str:
    """Hide secrets in the address of a catalog, for errors and events."""
    before, sign, rest = address.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{before}{sign}{host.rpartition('@')[2]}{slash}{path}"


def is_secret(name: str, value: str) -> bool:
    """Tell whether a property is a secret, judging by its name and value."""
    address = urlsplit(value.removeprefix("jdbc:"))
    if address.password is not None or without_address_secrets(value) != value:
        return True
    if value.lstrip().startswith(_JSON_MARK) and _has_secret_word(value):
        return True
    if _SECRET_VALUE.search(value) or (_HEADER in name.lower() and "auth" in name.lower()):
        return True
    return _has_secret_word(name) and _NO_SECRETS.isdisjoint(name.split("."))


def _has_secret_word(text: str) -> bool:
    return any(word in text.lower() for word in _SECRET_WORDS)


def exposed_secrets(given: Mapping[str, str]) -> list[str]:
    """Return the names of secrets that were given as plain arguments instead of references."""
    return [
        name
        for name, value in given.items()
        if not value.startswith((_FILE_MARK, _VARIABLE_MARK)) and is_secret(name, value)
    ]


def value_or_file(name: str, value: str) -> str:
    """Return an argument's value; `@FILE` means the content of a file, `env:NAME` a variable."""
    if not value.startswith(_FILE_MARK):
        return value_or_variable(name, value)
    try:
        return Path(value.removeprefix(_FILE_MARK)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise RequestError(f"Cannot read the file for '{name}': {fault}.") from fault


def value_or_variable(name: str, value: str) -> str:
    """Return a value that this process was given; `env:NAME` means a variable of its environment.

    Never for a value that comes from a server or a table: it could ask for any variable.
    """
    if not value.startswith(_VARIABLE_MARK):
        return value
    found = os.environ.get(variable := value.removeprefix(_VARIABLE_MARK))
    if found is None:
        raise RequestError(f"There is no environment variable {variable!r} for '{name}'.")
    return found


def without_address_secrets(value: str) -> str:
    """Hide the secrets in an address; a user name counts as one only where it is a token."""
    is_database = "://" in value and not value.startswith(("http://", "https://"))
    return value if is_database and "?" not in value else redacted(value)


def _iceberg_defaults(given: Mapping[str, str], directory: Path) -> dict[str, str]:
    place = directory / "lake" / "iceberg"
    # Not `as_uri`: pyiceberg takes locations literally, without percent-encoding.
    warehouse = {"warehouse": f"file://{place}"}
    if "type" not in given and "uri" not in given:
        return {"type": "sql", "uri": f"sqlite:///{place / 'catalog.sqlite'}", **warehouse}
    # Only catalogs in a database need a warehouse; others decide the location of tables themselves.
    is_sql = given.get("type", "sql") == "sql" and given.get("uri", "").startswith(_SQL_ADDRESSES)
    return warehouse if is_sql else {}


def _within(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value_or_variable(name, value)
        for name, value in properties.items()
        if name.startswith(prefix)
    }
