"""The installed lake formats, the lake a table goes to, and its lake table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import cast

from headwater.config.lake import value_or_variable
from headwater.config.options import DATALAKE_FORMAT
from headwater.errors import LakeNotAllowedError, UnsupportedError
from headwater.lake.options import names_code
from headwater.lake.spi import LakeStorage, LakeTableSpec
from headwater.model import TableInfo

GROUP = "headwater.lake"

OpenLake = Callable[[Mapping[str, str]], LakeStorage]


def lake_formats() -> tuple[str, ...]:
    """Names of the registered formats, usable or not."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def open_lake(name: str, config: Mapping[str, str]) -> LakeStorage:
    """Open a lake of a format, or say what to install."""
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        raise UnsupportedError(
            f"There is no lake format '{name}'.",
            hint=(
                f"Installed formats: {', '.join(lake_formats()) or 'none'}. A package "
                f"adds one with an entry point in the group '{GROUP}'."
            ),
        )
    try:
        opener = cast("OpenLake", found[0].load())
    except ModuleNotFoundError as fault:
        raise UnsupportedError(
            f"The lake format '{name}' needs the package '{fault.name}', which is not installed.",
            hint=f"Run: pip install 'headwater[{name}]'",
        ) from fault
    return opener(config)


# The lake that a table goes to, and its lake table.

Opener = Callable[[str, Mapping[str, str]], LakeStorage]
_PREFIX = "table.datalake."
# Classes that Java clients are told to load; the libraries here never get these options.
_FOR_JAVA = frozenset({"catalog-impl", "io-impl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lakes:
    """Opens the lake of a table, as the table says or as the tierer's options override."""

    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the lake's catalog that override the table's; `env:NAME` is a variable here."""
    opener: Opener = open_lake

    def of(self, table: TableInfo) -> LakeStorage:
        """Open the lake that a table goes to; may block."""
        return self.opener(lake_format(table), self.config_of(table))

    def config_of(self, table: TableInfo) -> dict[str, str]:
        """Options of the catalog that a table goes to.

        The server must not choose code to run: an option that names code is only taken from
        `config`.
        """
        found = _under(f"{_PREFIX}{lake_format(table)}.", table.descriptor.properties)
        told = {name: value for name, value in found.items() if name not in _FOR_JAVA}
        for name in sorted(told.keys() - self.config.keys()):
            if names_code(name):
                raise LakeNotAllowedError(
                    f"The server of {table.path} sets a lake option that names code to "
                    f"run: {name}={told[name]}.",
                    hint=f"If this process should run it, set it yourself: --lake {name}=…",
                )
        own = {name: value_or_variable(name, value) for name, value in self.config.items()}
        return {**told, **own}


def lake_format(table: TableInfo) -> str:
    """Name of a table's lake format; raises if it has none."""
    found = DATALAKE_FORMAT.of(table.descriptor.properties)
    if found is None:
        raise UnsupportedError(
            f"{table.path} has no lake format.",
            hint=(
                "Set 'table.datalake.enabled' to true; 'table.datalake.format' is set "
                "when the table is created."
            ),
        )
    return str(found)


def lake_spec(table: TableInfo) -> LakeTableSpec:
    """Describe the lake table of a table."""
    descriptor = table.descriptor
    return LakeTableSpec(
        path=table.path,
        schema=table.schema,
        partition_keys=descriptor.partition_keys,
        bucket_keys=descriptor.bucket_keys or descriptor.physical_primary_key,
        bucket_count=table.bucket_count,
        properties=_under(f"{lake_format(table)}.", descriptor.custom_properties),
        comment=descriptor.comment,
    )


def _under(prefix: str, properties: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in properties.items()
        if key.startswith(prefix)
    }
