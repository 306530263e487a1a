"""What a write to a table by Spark is asked for, as one value that travels to its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from headwater.engines.spark.clients import Connection
from headwater.engines.spark.options import (
    CHANGE_COLUMN,
    IGNORE_DELETE,
    PARTIAL_UPDATE,
    SINK_OPTIONS,
    WRITE_EPOCH,
    WRITE_ID,
    given_options,
)
from headwater.engines.spark.source_options import required_table
from headwater.errors import InvalidOptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Hold the options of a write."""

    connection: Connection
    table: str
    change_column: str = "_change_type"
    ignores_deletes: bool = False
    updates_partially: bool = False
    write_id: str | None = None
    write_epoch: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read the options that a user gave, or say what is wrong with them."""
        given = given_options(options, SINK_OPTIONS)
        _check_named(given)
        return cls(
            connection=Connection.of(given),
            table=required_table(given),
            change_column=CHANGE_COLUMN.required(given),
            ignores_deletes=IGNORE_DELETE.required(given),
            updates_partially=PARTIAL_UPDATE.required(given),
            write_id=WRITE_ID.of(given),
            write_epoch=WRITE_EPOCH.required(given),
        )


def _check_named(given: Mapping[str, str]) -> None:
    if WRITE_EPOCH.name in given and WRITE_ID.name not in given:
        raise InvalidOptionError(
            f"'{WRITE_EPOCH.name}' is given without '{WRITE_ID.name}'.",
            hint=f"Add .option('{WRITE_ID.name}', …): a name that all these writes share.",
        )
