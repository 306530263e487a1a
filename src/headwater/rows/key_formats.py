"""How the keys of a table are written: in Fluss's own form, or in that of its lake format."""

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from headwater.config.choices import LakeFormat
from headwater.config.options import DATALAKE_FORMAT, KV_FORMAT_VERSION
from headwater.model.descriptor import TableDescriptor
from headwater.model.types import DataType
from headwater.rows.compacted.keys import KeyDecoder, KeyEncoder
from headwater.rows.lake_keys import IcebergKeys, PaimonKeys
from headwater.rows.lake_keys_read import IcebergKeyReader, PaimonKeyReader
from headwater.rows.row_bytes import RowBytes

FIRST_KV_FORMAT = 1


class Encoder(Protocol):
    """Write keys in bytes."""

    def encode(self, columns: Sequence[pa.Array], /) -> RowBytes:
        """Return one key per element of the columns."""


class Decoder(Protocol):
    """Read keys from bytes."""

    def decode(self, keys: RowBytes, /) -> list[pa.Array]:
        """Return the columns of all keys, or refuse a key that is malformed."""


def key_encoder(types: Sequence[DataType], lake: LakeFormat | None) -> Encoder:
    """Return what writes keys of these types for a lake format."""
    make: Callable[[Sequence[DataType]], Encoder] = KeyEncoder.of
    if lake is LakeFormat.PAIMON:
        make = PaimonKeys.of
    elif lake is LakeFormat.ICEBERG:
        make = IcebergKeys.of
    return make(types)


def primary_key_format(descriptor: TableDescriptor) -> LakeFormat | None:
    """Return whose form the physical primary key has; None: Fluss's own."""
    lake = DATALAKE_FORMAT.of(descriptor.properties)
    version = KV_FORMAT_VERSION.of(descriptor.properties) or FIRST_KV_FORMAT
    is_whole = descriptor.bucket_keys in ((), descriptor.physical_primary_key)
    # Only Fluss's own keys can begin with a bucket key; newer tables use them for that.
    is_own = lake is LakeFormat.HUDI or (version > FIRST_KV_FORMAT and not is_whole)
    return lake if lake in (LakeFormat.PAIMON, LakeFormat.ICEBERG) and not is_own else None


def primary_key_encoder(descriptor: TableDescriptor) -> Encoder:
    """Return what writes the physical primary key of a table's rows, as Apache Fluss keeps it."""
    return key_encoder(_key_types(descriptor), primary_key_format(descriptor))


def primary_key_decoder(descriptor: TableDescriptor) -> Decoder:
    """Return what reads the physical primary key of a table's rows."""
    types = _key_types(descriptor)
    match primary_key_format(descriptor):
        case LakeFormat.PAIMON:
            return PaimonKeyReader.of(types)
        case LakeFormat.ICEBERG:
            return IcebergKeyReader.of(types)
        case _:
            return KeyDecoder.of(types)


def _key_types(descriptor: TableDescriptor) -> list[DataType]:
    return [descriptor.schema.column(name).type for name in descriptor.physical_primary_key]
