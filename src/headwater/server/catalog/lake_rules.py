"""The rules for tables that are tiered to a lake, and their defaults."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from headwater.config.lake import SERVED_FORMATS
from headwater.config.options import DATALAKE_ENABLED, DATALAKE_FORMAT, LakeFormat
from headwater.config.table_options import LakeOptions
from headwater.errors import InvalidAlterError, InvalidTableError, UnsupportedError
from headwater.lake.iceberg.options import ALLOWED as ICEBERG_OPTIONS
from headwater.lake.paimon.options import ALLOWED as PAIMON_OPTIONS
from headwater.model import TableDescriptor, types
from headwater.rows.keys import IcebergKeys

ICEBERG_PRECISION_MAX = 6


def with_lake_format(table: TableDescriptor, default_format: str) -> TableDescriptor:
    """Give a tiered table the server's lake format, unless it has one."""
    if DATALAKE_FORMAT.name in table.properties or not DATALAKE_ENABLED.of(table.properties):
        return table
    properties = {**table.properties, DATALAKE_FORMAT.name: str(default_format)}
    return replace(table, properties=properties)


def check_lake(table: TableDescriptor, options: LakeOptions) -> None:
    """Check that the lake supports the table, and puts its rows into the same buckets."""
    if options.historical_partition_enabled:
        raise InvalidTableError(
            "Lookups in expired partitions cannot be answered from the lake yet."
        )
    if options.format is None:
        return
    if options.format is LakeFormat.LANCE and not options.enabled:
        # Then it only decides the key encoding, and Lance uses that of Fluss.
        return
    if options.format not in SERVED_FORMATS:
        raise InvalidTableError(
            f"The lake format {options.format} is not supported.", hint="Use iceberg or paimon."
        )
    if options.format is LakeFormat.ICEBERG:
        _check_iceberg_buckets(table)
        if options.enabled:
            _check_iceberg_types(table)


def check_lake_options(table: TableDescriptor, *, held: Mapping[str, str] | None = None) -> None:
    """Reject options that the lake format does not take; those in `held` existed before."""
    known = held or {}
    given = {name for name, value in table.custom_properties.items() if known.get(name) != value}
    for allowed in (ICEBERG_OPTIONS, PAIMON_OPTIONS):
        prefix = f"{allowed.format}."
        allowed.check(name.removeprefix(prefix) for name in given if name.startswith(prefix))


def check_lake_alter(held: TableDescriptor, changed: TableDescriptor) -> None:
    """Reject new options that no lake format takes, and a format that comes too late.

    The first format of a table decides how its rows are distributed over buckets.
    """
    check_lake_options(changed, held=held.custom_properties)
    if (
        DATALAKE_FORMAT.name in held.properties
        or DATALAKE_FORMAT.name not in changed.properties
        or not (held.is_keyed or (held.bucket_keys and (held.bucket_count or 1) > 1))
    ):
        return
    raise InvalidAlterError(
        "The table was created without a lake format, which decides how rows are assigned to "
        "buckets.",
        hint=f"Create a new table with '{DATALAKE_FORMAT.name}', and copy the rows.",
    )


def _check_iceberg_buckets(table: TableDescriptor) -> None:
    names = table.bucket_keys or table.physical_primary_key
    if not names:
        return
    if len(names) > 1:
        raise InvalidTableError(
            f"A table in Iceberg's format has one bucket key, not {len(names)}: "
            f"{', '.join(names)}.",
            hint="Bucket by one column, or use 'table.datalake.format' paimon.",
        )
    data_type = table.schema.column(names[0]).type
    is_exact = not isinstance(data_type, types.FloatType | types.DoubleType) and _fits_iceberg(
        data_type
    )
    try:
        if is_exact:
            IcebergKeys.of([data_type])
    except UnsupportedError:
        is_exact = False
    if not is_exact:
        raise InvalidTableError(
            f"The column '{names[0]}' of type {data_type} cannot be the bucket key of a table in"
            " Iceberg's format.",
            hint="Bucket by a column of type INT, BIGINT, DATE, TIME, TIMESTAMP(6), DECIMAL,"
            " STRING or BYTES, or use 'table.datalake.format' paimon.",
        )


def _check_iceberg_types(table: TableDescriptor) -> None:
    for column in table.schema.columns:
        if not all(_fits_iceberg(each) for each in _parts(column.type)):
            raise InvalidTableError(
                f"The column '{column.name}' of type {column.type} cannot be tiered to Iceberg.",
                hint=f"Iceberg stores times with {ICEBERG_PRECISION_MAX} digits: use "
                "TIMESTAMP(6), or 'table.datalake.format' paimon.",
            )


def _fits_iceberg(data_type: types.DataType) -> bool:
    if isinstance(data_type, types.TimestampType | types.TimestampLtzType):
        return data_type.precision <= ICEBERG_PRECISION_MAX
    return True


def _parts(data_type: types.DataType) -> Iterator[types.DataType]:
    match data_type:
        case types.ArrayType():
            yield from _parts(data_type.element)
        case types.MapType():
            yield from _parts(data_type.key)
            yield from _parts(data_type.value)
        case types.RowType():
            for each in data_type.fields:
                yield from _parts(each.type)
        case _:
            yield data_type
