"""What Spark SQL shows of a table: columns and TBLPROPERTIES."""

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from headwater.engines.spark.types import spark_schema
from headwater.model.arrow import arrow_schema
from headwater.model.descriptor import TableDescriptor
from headwater.model.schema import Schema

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


def read_schema(rows: pa.Schema, *, name: str) -> StructType:
    """Return the columns of a table as its readers give them, all of which may be null."""
    return spark_schema(rows, columns=None, path=name)


def table_schema(declared: Schema, *, name: str) -> StructType:
    """Return the columns of a table as it declares them: which take no nulls, and comments."""
    read = read_schema(arrow_schema(declared), name=name)
    return StructType(
        [
            StructField(
                each.name,
                each.dataType,
                nullable=column.type.nullable,
                metadata=_metadata(column.comment),
            )
            for each, column in zip(read, declared.columns, strict=True)
        ]
    )


def _metadata(comment: str | None) -> dict[str, str]:
    return {} if comment is None else {"comment": comment}
