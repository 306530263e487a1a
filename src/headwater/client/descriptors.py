"""What a caller says of a new table, made into its description."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.client.column_names import names
from headwater.client.schema_in import SchemaLike, schema_of
from headwater.errors import RequestError
from headwater.model.aggregate_options import AGGREGATE_PREFIX, with_aggregates
from headwater.model.descriptor import TableDescriptor
from headwater.model.schema import check_schema

OptionValue = str | int | float | bool
# Options of the table itself; every other key is a property of the user's own.
_TABLE_PREFIX = "table."


def descriptor_of(  # noqa: PLR0913 - one argument per trait of a table
    schema: SchemaLike,
    *,
    primary_key: str | Sequence[str],
    partition_by: str | Sequence[str],
    bucket_by: str | Sequence[str],
    buckets: int | None,
    options: Mapping[str, OptionValue],
    comment: str | None,
    auto_increment: str | Sequence[str],
) -> TableDescriptor:
    """Describe a table; what a server has to decide is left to it."""
    described = check_schema(
        schema_of(schema, primary_key=names(primary_key), auto_increment=names(auto_increment))
    )
    if buckets is not None and buckets < 1:
        raise RequestError(f"A table has at least one bucket, not {buckets}.")
    texts = {key: option_text(value) for key, value in options.items()}
    descriptor = TableDescriptor(
        schema=described,
        comment=comment,
        partition_keys=names(partition_by),
        bucket_keys=names(bucket_by),
        bucket_count=buckets,
        properties={key: text for key, text in texts.items() if key.startswith(_TABLE_PREFIX)},
        custom_properties={
            key: text for key, text in texts.items() if not key.startswith(_TABLE_PREFIX)
        },
    )
    # In the schema every server understands them; Apache Fluss refuses the options.
    table = with_aggregates(descriptor)
    return replace(
        table,
        custom_properties={
            key: text
            for key, text in table.custom_properties.items()
            if not key.startswith(AGGREGATE_PREFIX)
        },
    )


def option_text(value: OptionValue) -> str:
    """Return the value of an option as the protocol carries it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
