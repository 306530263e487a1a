"""Limits on the lists and the body of a request.

A list costs its sender a byte or two per item, and the decoder a hundred times as much. So items
are counted in the raw bytes before anything is decoded; a body too short to exceed any limit is not
even counted. The limits are far above what clients send: a table has at most 4,096 columns, and
clients send one entry for each bucket they read or write.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headwater.errors import CorruptBatchError, RecordTooLargeError
from headwater.wire.apis import APIS, Api, ApiKey
from headwater.wire.messages import read_varint

KIB = 1024
BUCKETS_MAX = 16 * KIB
WRITES_MAX = 4 * KIB
LOOKUPS_MAX = 4 * KIB
OFFSETS_MAX = 64 * KIB
LAKE_TABLES_MAX = 256
KEYS_MAX = 64 * KIB
PREFIXES_MAX = 16 * KIB
COLUMNS_MAX = 4 * KIB
TABLES_MAX = 4 * KIB
PARTITIONS_MAX = 16 * KIB
PROPERTIES_MAX = 4 * KIB
LITERALS_MAX = 4 * KIB
COMPARISONS_MAX = 2 * KIB
PARTITION_KEYS_MAX = 256
ACLS_MAX = 1 * KIB

LISTS: Mapping[str, int] = {
    "AclInfo.rule_columns": COLUMNS_MAX,
    "AcquireKvSnapshotLeaseRequest.snapshots_to_lease": TABLES_MAX,
    "AddColumn.agg_function_params": PROPERTIES_MAX,
    "AlterClusterConfigsRequest.alter_configs": PROPERTIES_MAX,
    "AlterDatabaseRequest.config_changes": PROPERTIES_MAX,
    "AlterTableRequest.add_columns": COLUMNS_MAX,
    "AlterTableRequest.config_changes": PROPERTIES_MAX,
    "AlterTableRequest.drop_columns": COLUMNS_MAX,
    "AlterTableRequest.modify_columns": COLUMNS_MAX,
    "AlterTableRequest.rename_columns": COLUMNS_MAX,
    "CommitLakeTableSnapshotRequest.lake_table_snapshot_metadata": LAKE_TABLES_MAX,
    "CommitLakeTableSnapshotRequest.tables_req": LAKE_TABLES_MAX,
    "CompoundPredicate.children": COMPARISONS_MAX,
    "CreateAclsRequest.acl": ACLS_MAX,
    "DropAclsRequest.acl_filter": ACLS_MAX,
    "FetchLogRequest.tables_req": TABLES_MAX,
    "FetchLogTableRequest.buckets_req": BUCKETS_MAX,
    "FetchLogTableRequest.projected_fields": COLUMNS_MAX,
    "GetTableStatsRequest.buckets_req": BUCKETS_MAX,
    "GetTableStatsRequest.target_columns": COLUMNS_MAX,
    "InitWriterRequest.table_path": TABLES_MAX,
    "KvSnapshotLeaseForTable.bucket_snapshots": BUCKETS_MAX,
    "LakeTableSnapshotInfo.buckets_req": OFFSETS_MAX,
    "LakeTieringHeartbeatRequest.failed_tables": TABLES_MAX,
    "LakeTieringHeartbeatRequest.finished_tables": TABLES_MAX,
    "LakeTieringHeartbeatRequest.force_finished_tables": TABLES_MAX,
    "LakeTieringHeartbeatRequest.only_tables": TABLES_MAX,
    "LakeTieringHeartbeatRequest.tiering_tables": TABLES_MAX,
    "LeafPredicate.literals": LITERALS_MAX,
    "ListOffsetsRequest.bucket_id": BUCKETS_MAX,
    "LookupBucketRequest.keys": KEYS_MAX,
    "LookupRequest.buckets_req": LOOKUPS_MAX,
    "MetadataRequest.partitions_id": PARTITIONS_MAX,
    "MetadataRequest.partitions_path": PARTITIONS_MAX,
    "MetadataRequest.table_path": TABLES_MAX,
    "PartitionSpec.partition_key_values": PARTITION_KEYS_MAX,
    "PrefixLookupBucketRequest.keys": PREFIXES_MAX,
    "PrefixLookupRequest.buckets_req": LOOKUPS_MAX,
    "PrepareLakeTableSnapshotRequest.bucket_offsets": LAKE_TABLES_MAX,
    "ProduceLogRequest.buckets_req": WRITES_MAX,
    "ProducerTableOffsets.bucket_offsets": BUCKETS_MAX,
    "PutKvRequest.buckets_req": WRITES_MAX,
    "PutKvRequest.only_if": BUCKETS_MAX,
    "PutKvRequest.target_columns": COLUMNS_MAX,
    "RegisterProducerOffsetsRequest.table_offsets": TABLES_MAX,
    "ReleaseKvSnapshotLeaseRequest.buckets_to_release": BUCKETS_MAX,
    "TableOffsets.bucket_offsets": OFFSETS_MAX,
}
"""Items of a list in one request: all lists of that name together."""

NAMES_BYTES_MAX = 64 * KIB
LISTS_BYTES_MAX = 4 * KIB * KIB
"""Body of a request without lists, and of one with lists."""

BODIES: Mapping[ApiKey, int | None] = {
    # JSON documents.
    ApiKey.CREATE_DATABASE: LISTS_BYTES_MAX,
    ApiKey.CREATE_TABLE: LISTS_BYTES_MAX,
    # They carry rows and keys, so only the frame limit applies.
    ApiKey.PRODUCE_LOG: None,
    ApiKey.PUT_KV: None,
    ApiKey.LOOKUP: None,
    ApiKey.PREFIX_LOOKUP: None,
}

DEPTH_MAX = 96
"""Nested messages; the protobuf decoder gives up at 100."""

ITEMS_PER_TURN = 4 * KIB
"""Items that are counted before other tasks may run."""

JSON_VALUES_MAX = 64 * KIB
"""Values in a JSON document: a column of a table takes about four."""

# A singular field may be repeated; the last one counts.
_SINGLES_MAX = 1024
_SINGLES_PER_ITEM = 16
_MORE = 0x80
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_INNER_BYTES = bytes(range(_MORE, 256))


@dataclass(frozen=True, slots=True)
class _Rule:
    """What is counted in the body of one API."""

    fields: "Fields"
    bytes_max: int | None
    harmless_bytes: int


def may_be_too_long(api: ApiKey, body: memoryview) -> bool:
    """Tell whether a body is large enough to exceed a limit; small ones are not."""
    return len(body) > _RULES[api].harmless_bytes


def count_items(api: ApiKey, body: memoryview) -> Iterator[None]:
    """Reject a body that exceeds a limit; yields now and then so that other tasks can run."""
    rule = _RULES[api]
    if rule.bytes_max is not None and len(body) > rule.bytes_max:
        raise RecordTooLargeError(
            f"The body of {api.name} has {len(body)} bytes, more than the limit of "
            f"{rule.bytes_max}.",
            hint="Send less in one request.",
        )
    try:
        yield from _walk(body, rule.fields)
    except IndexError:
        raise CorruptBatchError("A message ends inside a field.") from None


def check_json(document: bytes, *, what: str) -> None:
    """Reject a document with so many values that parsing it would block the event loop."""
    count = document.count(b",") + document.count(b"[") + document.count(b"{")
    if count > JSON_VALUES_MAX:
        raise RecordTooLargeError(
            f"The {what} has about {count} values, more than the limit of {JSON_VALUES_MAX}.",
            hint="Use fewer columns, or shorter lists.",
        )


def _walk(body: memoryview, fields: "Fields") -> Iterator[None]:
    """Count the items of all lists without recursion: deep nesting must not overflow the stack."""
    count, above, position, end = _Count(), list[tuple[Fields, int, int]](), 0, len(body)
    while True:
        if position >= end:
            if position > end:
                raise CorruptBatchError("A message ends inside a field.")
            if not above:
                return
            fields, position, end = above.pop()
            continue
        start, position, tag = _next_field(body, position, end)
        field = fields.get(tag >> 3)
        count.add(field, _items_in(body, field, tag & 7, start, position))
        if field is not None and field.inner and tag & 7 == _BYTES:
            above.append((fields, position, end))
            fields, position, end = field.inner, start, position
            _check_depth(len(above))
        elif field is not None and field.is_text and tag < _MORE:
            position = count.add_run(field, body, position, end)
        if count.is_turn_over():
            yield


@dataclass(slots=True)
class _Count:
    """Count the items of lists, and other fields."""

    by_name: dict[str, int] = dataclass_field(default_factory=dict)
    items: int = 0
    singles: int = 0
    turn_ends_at: int = ITEMS_PER_TURN

    def add(self, field: "_Field | None", found: int) -> None:
        """Count what one field contains."""
        if field is not None and field.limit is not None:
            self.items += 1
            total = self.by_name[field.name] = self.by_name.get(field.name, 0) + found
            if total > field.limit:
                raise _too_many(field)
            return
        self.singles += 1
        if self.singles > _SINGLES_MAX + _SINGLES_PER_ITEM * self.items:
            raise CorruptBatchError("A message repeats fields that should occur once.")

    def add_run(self, field: "_Field", body: memoryview, position: int, end: int) -> int:
        """Count consecutive short strings, as keys are, and return where they end."""
        assert field.limit is not None
        tag, before = field.tag, self.by_name[field.name]
        total, most = before, min(field.limit, before + ITEMS_PER_TURN)
        while position < end and body[position] == tag and total <= most:
            length = body[position + 1]
            if length >= _MORE:
                break
            position += 2 + length
            total += 1
        self.items += total - before
        self.by_name[field.name] = total
        if total > field.limit:
            raise _too_many(field)
        return position

    def is_turn_over(self) -> bool:
        """Tell now and then that other tasks should run."""
        looked_at = self.items + self.singles
        if looked_at < self.turn_ends_at:
            return False
        self.turn_ends_at = looked_at + ITEMS_PER_TURN
        return True


def _check_depth(depth: int) -> None:
    if depth > DEPTH_MAX:
        raise CorruptBatchError(
            f"A message is nested more than {DEPTH_MAX} levels deep.",
            hint="Write the filter with fewer levels.",
        )


def _next_field(body: memoryview, position: int, end: int) -> tuple[int, int, int]:
    """Return where the content of a field begins and ends, and its tag."""
    tag = body[position]
    position += 1
    if tag >= _MORE:
        tag, position = read_varint(body, position - 1)
    kind = tag & 7
    if kind == _BYTES:
        length = body[position]
        position += 1
        if length >= _MORE:
            length, position = read_varint(body, position - 1)
        if length > end - position:
            raise CorruptBatchError("A message ends inside a field.")
        return position, position + length, tag
    if kind == _VARINT:
        return position, read_varint(body, position)[1], tag
    if kind not in _FIXED_BYTES:
        raise CorruptBatchError(f"A message has a field of the unknown kind {kind}.")
    return position, position + _FIXED_BYTES[kind], tag


def _items_in(body: memoryview, field: "_Field | None", kind: int, start: int, end: int) -> int:
    """Count the items in a field; packed numbers end with a byte below 128 each."""
    if field is None or not field.is_packable or kind != _BYTES:
        return 1
    return len(bytes(body[start:end]).translate(None, _INNER_BYTES))


def _too_many(field: "_Field") -> RecordTooLargeError:
    return RecordTooLargeError(
        f"The list {field.name} of a request has more than {field.limit} items.",
        hint="Send fewer in one request.",
    )


# ---- from the declarations to what is counted


@dataclass(frozen=True, slots=True)
class _Field:
    """Which list a field is, if any, and what to count inside."""

    name: str
    tag: int
    inner: "Fields"
    limit: int | None = None
    is_packable: bool = False
    is_text: bool = False


Fields = dict[int, _Field]


def _fields(message: Descriptor, known: dict[str, Fields]) -> Fields:
    """Return the lists of a message and whatever contains lists; a filter contains filters."""
    if message.name not in known:
        found = known[message.name] = {}
        for field in message.fields:
            described = _described(message, field, known)
            if described.limit is not None or described.inner:
                found[field.number] = described
    return known[message.name]


def _described(message: Descriptor, field: FieldDescriptor, known: dict[str, Fields]) -> _Field:
    name, tag = f"{message.name}.{field.name}", field.number << 3 | _BYTES
    inner = {} if field.message_type is None else _fields(field.message_type, known)
    # Written like this because protobuf has deprecated the other ways.
    if not isinstance(field.default_value, list):
        return _Field(name, tag, inner)
    is_text = field.cpp_type == FieldDescriptor.CPPTYPE_STRING
    is_packable = not is_text and field.message_type is None
    return _Field(name, tag, inner, LISTS[name], is_packable, is_text)


def _harmless_bytes(bytes_max: int | None, known: Mapping[str, Fields]) -> int:
    """Return how large a body can be without exceeding any limit."""
    lists = (field for fields in known.values() for field in fields.values() if field.limit)
    sizes = [(field.limit or 0) * (1 if field.is_packable else 2) for field in lists]
    return min([*sizes, sys.maxsize if bytes_max is None else bytes_max])


def _rule_of(api: Api) -> _Rule:
    known: dict[str, Fields] = {}
    fields = _fields(cast(Descriptor, api.request.DESCRIPTOR), known)
    bytes_max = BODIES.get(api.key, LISTS_BYTES_MAX if fields else NAMES_BYTES_MAX)
    return _Rule(fields, bytes_max, _harmless_bytes(bytes_max, known))


_RULES: Mapping[int, _Rule] = {key: _rule_of(api) for key, api in APIS.items()}
