"""What Spark SQL shows of a table: columns and TBLPROPERTIES."""

from pyspark.sql.types import StructField, StructType

from headwater.client.sync.table import Table
from headwater.engines.spark.types import spark_schema
from headwater.model.descriptor import TableDescriptor

# The names that the catalog of Apache Fluss gives them.
PRIMARY_KEY = "primary.key"
BUCKET_KEY = "bucket.key"
BUCKET_COUNT = "bucket.num"
COMMENT = "comment"
PROVIDER = "provider"
FORMAT = "headwater"
FIXED = frozenset({PRIMARY_KEY, BUCKET_KEY, BUCKET_COUNT, COMMENT, PROVIDER})


def properties_of(descriptor: TableDescriptor) -> dict[str, str]:
    """Return what SHOW TBLPROPERTIES shows of a table."""
    lists = {PRIMARY_KEY: descriptor.schema.primary_key, BUCKET_KEY: descriptor.bucket_keys}
    shown = {name: ",".join(names) for name, names in lists.items() if names}
    if descriptor.bucket_count is not None:
        shown[BUCKET_COUNT] = str(descriptor.bucket_count)
    if descriptor.comment:
        shown[COMMENT] = descriptor.comment
    return {**descriptor.custom_properties, **descriptor.properties, **shown, PROVIDER: FORMAT}


def read_schema(table: Table) -> StructType:
    """Return the columns of a table as its readers give them, all of which may be null."""
    return spark_schema(table.schema, columns=None, path=table.name)


def table_schema(table: Table) -> StructType:
    """Return the columns of a table as it declares them: which take no nulls, and comments."""
    schema = read_schema(table)
    if table.name != str(table.path):
        # The log has rows of a table from before its columns were what they are.
        return schema
    declared = {column.name: column for column in table.info.schema.columns}
    return StructType(
        [
            StructField(
                each.name,
                each.dataType,
                nullable=declared[each.name].type.nullable,
                metadata=_metadata(declared[each.name].comment),
            )
            for each in schema
        ]
    )


def _metadata(comment: str | None) -> dict[str, str]:
    return {} if comment is None else {"comment": comment}
