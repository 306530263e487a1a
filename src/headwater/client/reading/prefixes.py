"""What a prefix of a key has to hold, so that its bucket can be found."""

from collections.abc import Sequence

from headwater.config.choices import LakeFormat
from headwater.config.options import DATALAKE_FORMAT, KV_FORMAT_VERSION
from headwater.errors import NotPrimaryKeyTableError, RequestError, UnsupportedError
from headwater.model.table import TableInfo
from headwater.rows.compacted.keys import KeyEncoder
from headwater.rows.key_formats import FIRST_KV_FORMAT, Encoder

_LAKE_KEYS = (LakeFormat.PAIMON, LakeFormat.ICEBERG)


def prefix_encoder(table: TableInfo, names: Sequence[str]) -> tuple[tuple[str, ...], Encoder]:
    """Return the key columns of a prefix in order, and what writes them in bytes.

    A prefix has all partition columns, and the first columns of the rest of the key, with the
    bucket key among them.
    """
    descriptor = table.descriptor
    if not table.is_keyed:
        raise NotPrimaryKeyTableError(f"{table.path} has no primary key.")
    key = descriptor.physical_primary_key
    bucket_key = descriptor.bucket_keys or key
    count = len([name for name in names if name not in descriptor.partition_keys])
    missing = [name for name in descriptor.partition_keys if name not in names]
    is_start = set(key[:count]) | set(descriptor.partition_keys) == set(names)
    if missing or not is_start or not set(bucket_key) <= set(key[:count]):
        needed = ", ".join((*descriptor.partition_keys, *bucket_key))
        raise RequestError(
            f"Rows of {table.path} cannot be found by {', '.join(names) or 'nothing'}.",
            hint=f"A prefix needs {needed}, and may go on in the order {', '.join(key)}.",
        )
    version = KV_FORMAT_VERSION.of(descriptor.properties) or FIRST_KV_FORMAT
    if DATALAKE_FORMAT.of(descriptor.properties) in _LAKE_KEYS and version == FIRST_KV_FORMAT:
        raise UnsupportedError(
            f"The keys of {table.path} are written so that they have no prefixes.",
            hint="Create the table with 'table.kv.format-version' 2.",
        )
    types = [table.schema.column(name).type for name in key[:count]]
    return key[:count], KeyEncoder.of(types)
