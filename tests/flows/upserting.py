"""A primary-key table, written and read by our own client with batches made by hand."""

import json
from collections.abc import Sequence
from itertools import count

import numpy as np
import pyarrow as pa

from headwater.cluster.links import TcpConnection
from headwater.model.arrow import arrow_schema
from headwater.model.table import descriptor_from_json
from headwater.rows.changelog import read_changelog
from headwater.rows.compacted.coders import decoder_of, encoder_of, key_encoder_of
from headwater.rows.kv_batch import build_kv_batch
from headwater.rows.log_batch import iterate
from headwater.rows.row_bytes import RowBytes
from headwater.wire import fluss_pb2 as pb
from headwater.wire.value_batch import read_value_batch
from tests.flows.appending import fetch

_numbers = count()
SYMBOLS = {1: "+I", 2: "-U", 3: "+U", 4: "-D"}
COLUMNS = {"id": "INTEGER", "name": "STRING", "score": "BIGINT"}
BIG_BYTES = 1 << 20


def keyed_json(
    columns: dict[str, str] | None = None,
    *,
    key: Sequence[str] = ("id",),
    numbered: Sequence[str] = (),
    partition: Sequence[str] = (),
    bucket_key: Sequence[str] = (),
    **properties: str,
) -> bytes:
    """Describe a table with one bucket; `_` in the name of a property stands for `.`."""
    columns = COLUMNS if columns is None else columns
    schema = {
        "version": 1,
        "columns": [
            {"name": name, "data_type": {"type": kind, "nullable": name not in key}, "id": at}
            for at, (name, kind) in enumerate(columns.items())
        ],
        "primary_key": list(key),
        "auto_increment_column": list(numbered),
        "highest_field_id": len(columns) - 1,
    }
    table = {
        "version": 1,
        "schema": schema,
        "partition_key": list(partition),
        "bucket_key": list(bucket_key),
        "bucket_count": 1,
        "properties": {f"table.{name.replace('_', '.')}": v for name, v in properties.items()},
        "custom_properties": {},
    }
    return json.dumps(table).encode()


class Rows:
    """Write and read one bucket of a table; rows are tuples, and a delete is a key alone."""

    def __init__(
        self, connection: TcpConnection, table_id: int, content: bytes, path: pb.TablePath
    ):
        self.connection, self.table_id, self.path = connection, table_id, path
        descriptor = descriptor_from_json(json.loads(content))
        self.schema, self.key_names = descriptor.schema, descriptor.physical_primary_key
        self.arrow = arrow_schema(self.schema)
        self.partition_id: int | None = None

    @classmethod
    async def create(cls, connection: TcpConnection, content: bytes | None = None) -> "Rows":
        """Create a table that nobody has used yet."""
        path = pb.TablePath(database_name="fluss", table_name=f"keyed_{next(_numbers)}")
        content = content or keyed_json()
        request = pb.CreateTableRequest(table_path=path, table_json=content, ignore_if_exists=False)
        await connection.call(request, pb.CreateTableResponse)
        info = await connection.call(
            pb.GetTableInfoRequest(table_path=path), pb.GetTableInfoResponse
        )
        return cls(connection, info.table_id, content, path)

    def through(self, connection: TcpConnection) -> "Rows":
        """Use the table over another connection, perhaps to a server that was started anew."""
        other = object.__new__(Rows)
        other.__dict__ = self.__dict__ | {"connection": connection}
        return other

    async def use_partition(self, **spec: str) -> None:
        """Create a partition and use it from now on."""
        values = [pb.KeyValue(key=name, value=value) for name, value in spec.items()]
        request = pb.CreatePartitionRequest(
            table_path=self.path,
            partition_spec=pb.PartitionSpec(partition_key_values=values),
            ignore_if_exists=False,
        )
        await self.connection.call(request, pb.CreatePartitionResponse)
        found = await self.connection.call(
            pb.ListPartitionInfosRequest(table_path=self.path), pb.ListPartitionInfosResponse
        )
        self.partition_id = max(info.partition_id for info in found.partitions_info)

    # ---- writing

    def keys(self, keys: Sequence[tuple]) -> list[bytes]:
        """Encode keys; those of one column may be given without a tuple."""
        tuples = [key if isinstance(key, tuple) else (key,) for key in keys]
        columns = [
            pa.array([key[at] for key in tuples], self.arrow.field(name).type)
            for at, name in enumerate(self.key_names)
        ]
        return key_encoder_of(self.schema, self.key_names).encode(columns).to_list()

    def rows(self, rows: Sequence[tuple]) -> list[bytes]:
        """Encode whole rows."""
        columns = [
            pa.array([row[at] for row in rows], field.type) for at, field in enumerate(self.arrow)
        ]
        return encoder_of(self.schema).encode(columns).to_list()

    def batch(self, rows: Sequence[tuple], *, writer: tuple[int, int] = (-1, -1)) -> bytes:
        """Make a batch of rows, and of deletes, which are keys in front of nothing."""
        padded = [(*row, *[None] * (len(self.arrow) - len(row))) for row in rows]
        places = [self.arrow.get_field_index(name) for name in self.key_names]
        keys = self.keys([tuple(row[at] for at in places) for row in padded])
        return build_kv_batch(
            RowBytes.of(keys),
            RowBytes.of(self.rows(padded)),
            schema_id=1,
            writer_id=writer[0],
            sequence=writer[1],
            is_delete=np.array([len(row) == len(places) for row in rows], np.bool_),
        )

    async def send(self, records: bytes, **given) -> pb.PutKvBucketResponse:
        """Send the bytes of a batch and return what the bucket answers."""
        request = pb.PutKvRequest(
            **{"acks": -1, "table_id": self.table_id, "timeout_ms": 30_000} | given,
            buckets_req=[
                pb.PutKvBucketRequest(bucket_id=0, records=records, partition_id=self.partition_id)
            ],
        )
        answer = await self.connection.call(request, pb.PutKvResponse)
        return answer.buckets_resp[0]

    async def put(self, *rows: tuple, writer: tuple[int, int] = (-1, -1), **given) -> int:
        """Write rows in one batch and return where the changelog ends."""
        answer = await self.send(self.batch(rows, writer=writer), **given)
        assert not answer.error_code, answer.error_message
        return answer.log_end_offset

    async def writer_id(self) -> int:
        return (await self.connection.call(pb.InitWriterRequest(), pb.InitWriterResponse)).writer_id

    # ---- reading

    def decoded(self, values: Sequence[bytes]) -> list[tuple]:
        """Decode values: a schema id, and a row of the first schema."""
        assert all(value[:2] == b"\x01\x00" for value in values)
        columns = decoder_of(self.schema).decode(RowBytes.of([value[2:] for value in values]))
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    async def looked_up(self, keys: Sequence[bytes], **given) -> pb.LookupBucketResponse:
        """Send keys as they are and return what the bucket answers."""
        bucket = pb.LookupBucketRequest(bucket_id=0, keys=keys, partition_id=self.partition_id)
        request = pb.LookupRequest(table_id=self.table_id, buckets_req=[bucket], **given)
        return (await self.connection.call(request, pb.LookupResponse)).buckets_resp[0]

    async def get(self, *keys, **given) -> list[tuple | None]:
        """Return the rows of keys, and None where there is none."""
        answer = await self.looked_up(self.keys(keys), **given)
        assert not answer.error_code, answer.error_message
        held = iter(self.decoded([v.values for v in answer.values if v.HasField("values")]))
        return [next(held) if v.HasField("values") else None for v in answer.values]

    async def by_prefix(self, *prefix) -> list[tuple]:
        """Return the rows whose keys begin with some values."""
        names = self.key_names[: len(prefix)]
        columns = [
            pa.array([value], self.arrow.field(name).type)
            for name, value in zip(names, prefix, strict=True)
        ]
        keys = key_encoder_of(self.schema, names).encode(columns).to_list()
        answer = await self.prefixed(keys)
        assert not answer.error_code, answer.error_message
        return self.decoded(answer.value_lists[0].values)

    async def prefixed(self, prefixes: Sequence[bytes]) -> pb.PrefixLookupBucketResponse:
        """Send prefixes as they are and return what the bucket answers."""
        bucket = pb.PrefixLookupBucketRequest(bucket_id=0, keys=prefixes)
        request = pb.PrefixLookupRequest(table_id=self.table_id, buckets_req=[bucket])
        return (await self.connection.call(request, pb.PrefixLookupResponse)).buckets_resp[0]

    async def changes(self, offset: int = 0) -> list[tuple[int, str, tuple]]:
        """Return offset, kind and row of all changes from an offset on."""
        found, end = [], offset + 1
        while offset < end:
            answer = await fetch(self.connection, self.table_id, 0, offset)
            assert not answer.error_code, answer.error_message
            end = answer.high_watermark
            for header, position in iterate(answer.records):
                data = memoryview(answer.records)[position : position + header.size]
                types, rows = read_changelog(data, header, self.arrow)
                tuples = zip(*(column.to_pylist() for column in rows.columns), strict=True)
                numbered = enumerate(zip(types.tolist(), tuples, strict=True), header.base_offset)
                found += [(at, SYMBOLS[kind], row) for at, (kind, row) in numbered]
                offset = header.end_offset
        return found

    async def scan(self, **given) -> pb.ScanKvResponse:
        """Make one call of a scan; the first one of it names no scanner."""
        request = pb.ScanKvRequest(**{"batch_size_bytes": BIG_BYTES, "call_seq_id": 0} | given)
        if "scanner_id" not in given and "bucket_scan_req" not in given:
            request.bucket_scan_req.table_id = self.table_id
            request.bucket_scan_req.bucket_id = 0
        return await self.connection.call(request, pb.ScanKvResponse)

    def scanned(self, answer: pb.ScanKvResponse) -> list[tuple]:
        """Return the rows that a call of a scan brought."""
        if not answer.records:
            return []
        return self.decoded(read_value_batch(memoryview(answer.records)).to_list())

    async def all(self) -> list[tuple]:
        """Return all rows in the order of their keys."""
        answer = await self.scan()
        assert not answer.error_code, answer.error_message
        assert not answer.has_more_results
        return sorted(self.scanned(answer))

    async def row_count(self) -> int:
        bucket = pb.TableStatsBucketRequest(bucket_id=0, partition_id=self.partition_id)
        request = pb.GetTableStatsRequest(table_id=self.table_id, buckets_req=[bucket])
        answer = await self.connection.call(request, pb.GetTableStatsResponse)
        return answer.buckets_resp[0].row_count


def many(count, score=0):
    """Return rows that differ in their keys."""
    return [(number, f"n{number}", score) for number in range(count)]
