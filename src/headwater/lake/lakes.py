"""The lake that a table goes to, and how its lake table looks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.config.options import DATALAKE_FORMAT
from headwater.errors import LakeNotAllowedError, UnsupportedError
from headwater.lake.allowed import names_code
from headwater.lake.registry import open_lake
from headwater.lake.spi import LakeStorage
from headwater.lake.table import LakeTableSpec
from headwater.model.table import TableInfo

Opener = Callable[[str, Mapping[str, str]], LakeStorage]
_PREFIX = "table.datalake."
# Classes that clients in Java are told to load; none of the libraries here is given these names.
_FOR_JAVA = frozenset({"catalog-impl", "io-impl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lakes:
    """Open the lake of a table, as the table says or as the tierer was told otherwise."""

    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the lake's catalog that stand above those of the table."""
    opener: Opener = open_lake

    def of(self, table: TableInfo) -> LakeStorage:
        """Open the lake that a table goes to; this may block."""
        return self.opener(lake_format(table), self.config_of(table))

    def config_of(self, table: TableInfo) -> dict[str, str]:
        """Return the options of the catalog that a table goes to.

        Which code to run is not for others to say: an option that names some comes from `config`.
        """
        found = _under(f"{_PREFIX}{lake_format(table)}.", table.descriptor.properties)
        told = {name: value for name, value in found.items() if name not in _FOR_JAVA}
        for name in sorted(told.keys() - self.config.keys()):
            if names_code(name):
                raise LakeNotAllowedError(
                    f"The server of {table.path} names code for its lake: {name}={told[name]}.",
                    hint=f"If this process is to run it, say so yourself: --lake {name}=…",
                )
        return {**told, **self.config}


def lake_format(table: TableInfo) -> str:
    """Return the name of the lake format of a table, or say that it has none."""
    found = DATALAKE_FORMAT.of(table.descriptor.properties)
    if found is None:
        raise UnsupportedError(
            f"{table.path} has no lake format.",
            hint="Turn 'table.datalake.enabled' on; 'table.datalake.format' is given at creation.",
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
