"""Tables and catalogs that the catalog's tests begin with."""

from dataclasses import replace
from pathlib import Path

from headwater.config.server import ServerSettings
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor
from headwater.model.types import BigIntType, DataType, StringType
from headwater.server.catalog.catalog import ServerCatalog

ORDERS = TablePath("fluss", "orders")
NOON_MS = 1_731_328_200_000  # 2024-11-11 12:30 UTC


class FakeClock:
    """Stand still until told otherwise."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000

    async def sleep(self, seconds: float) -> None:
        self.time_ms += int(seconds * 1000)


def open_catalog(
    directory: Path, *, clock: FakeClock | None = None, **settings: int
) -> ServerCatalog:
    return ServerCatalog.open(
        directory, clock=clock or FakeClock(), settings=ServerSettings(**settings)
    )


def schema_of(**types: DataType) -> Schema:
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in types.items()))


def log_table(*, schema: Schema | None = None, properties=None, **rest) -> TableDescriptor:
    columns = schema or schema_of(id=BigIntType(), name=StringType(), day=StringType())
    return TableDescriptor(schema=columns, properties=properties or {}, **rest)


def keyed_table(
    *, schema: Schema | None = None, key: tuple[str, ...] = ("id",), properties=None, **rest
) -> TableDescriptor:
    columns = schema or schema_of(id=BigIntType(), name=StringType(), day=StringType())
    keyed = replace(columns, primary_key=key)
    return TableDescriptor(schema=keyed, properties=properties or {}, **rest)


def partitioned_table(*keys: str, **properties: str) -> TableDescriptor:
    options = {
        f"table.auto-partition.{key.replace('_', '-')}": text for key, text in properties.items()
    }
    return log_table(partition_keys=keys or ("day",), properties=options)
