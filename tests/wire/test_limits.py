"""Every list of every request has a limit, and is counted before anything is decoded."""

import random
from contextlib import suppress

import pytest
from google.protobuf.descriptor import FieldDescriptor

from headwater.errors import CorruptBatchError, RecordTooLargeError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS, ApiKey
from headwater.wire.limits import (
    BODIES,
    DEPTH_MAX,
    ITEMS_PER_TURN,
    JSON_VALUES_MAX,
    LISTS,
    check_json,
    count_items,
    may_be_too_long,
)
from headwater.wire.messages import bytes_head, number_field

# Whole frames have a limit of their own, which is a setting of the server.
OF_ANY_SIZE = {ApiKey.PRODUCE_LOG, ApiKey.PUT_KV, ApiKey.LOOKUP, ApiKey.PREFIX_LOOKUP}


def messages_of(descriptor, known=None):
    """Return a message and all that may lie inside it."""
    known = {} if known is None else known
    if descriptor.name not in known:
        known[descriptor.name] = descriptor
        for field in descriptor.fields:
            if field.message_type is not None:
                messages_of(field.message_type, known)
    return known


def paths_to_lists(descriptor, above=()):
    """Return the fields that lead to each list, through each message once."""
    paths = []
    for field in descriptor.fields:
        if field.message_type in [step.message_type for step in above if step.message_type]:
            continue
        if isinstance(field.default_value, list):
            paths.append((*above, field))
        if field.message_type is not None:
            paths += paths_to_lists(field.message_type, (*above, field))
    return paths


def body_with(path, count):
    """Return a body whose last list has so many items, and every one before it a single item."""
    *above, last = path
    is_number = last.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_INT32)
    one = number_field(last.number, 300) if is_number else bytes_head(last.number, 0)
    body = one * count
    for field in reversed(above):
        body = bytes_head(field.number, len(body)) + body
    return body


def counted(api, body):
    return list(count_items(api, memoryview(body)))


def test_every_list_of_every_request_has_a_limit_and_no_limit_is_left_over():
    lists = {
        f"{message.name}.{field.name}"
        for api in APIS.values()
        for message in messages_of(api.request.DESCRIPTOR).values()
        for field in message.fields
        if isinstance(field.default_value, list)
    }

    assert lists == set(LISTS)
    assert {key for key, size in BODIES.items() if size is None} == OF_ANY_SIZE


def test_a_list_at_its_limit_is_taken_and_one_item_more_is_refused_wherever_it_stands():
    for api in APIS.values():
        for path in paths_to_lists(api.request.DESCRIPTOR):
            name = f"{path[-1].containing_type.name}.{path[-1].name}"
            most, more = body_with(path, LISTS[name]), body_with(path, LISTS[name] + 1)

            counted(api.key, most)
            with pytest.raises(RecordTooLargeError, match=f"{name} .* {LISTS[name]} items"):
                counted(api.key, more)
            assert may_be_too_long(api.key, memoryview(more))


def test_packed_numbers_are_counted_one_by_one():
    limit = LISTS["ListOffsetsRequest.bucket_id"]
    numbers = [random.Random(1).choice([1, 200, -1]) for _ in range(limit)]
    request = pb.ListOffsetsRequest(
        follower_server_id=-1, offset_type=0, table_id=1, bucket_id=numbers
    )

    counted(ApiKey.LIST_OFFSETS, request.SerializeToString())
    request.bucket_id.append(1)
    with pytest.raises(RecordTooLargeError):
        counted(ApiKey.LIST_OFFSETS, request.SerializeToString())


def test_the_items_of_all_lists_of_a_name_are_counted_together():
    half = LISTS["FetchLogTableRequest.buckets_req"] // 2 + 1
    table = pb.FetchLogTableRequest(table_id=1, projection_pushdown_enabled=False)
    table.buckets_req.extend(
        [pb.FetchLogBucketRequest(bucket_id=0, fetch_offset=0, max_fetch_bytes=1)] * half
    )
    request = pb.FetchLogRequest(follower_server_id=-1, max_bytes=1, tables_req=[table, table])

    with pytest.raises(RecordTooLargeError, match=r"FetchLogTableRequest\.buckets_req"):
        counted(ApiKey.FETCH_LOG, request.SerializeToString())


def test_a_long_list_is_counted_in_turns_and_only_up_to_its_limit():
    limit = LISTS["LookupBucketRequest.keys"]
    keys = (bytes_head(3, 1) + b"k") * limit
    turns = []

    with suppress(RecordTooLargeError):
        turns.extend(
            count_items(ApiKey.LOOKUP, memoryview(bytes_head(2, 20 * len(keys)) + keys * 20))
        )

    assert limit // ITEMS_PER_TURN - 1 <= len(turns) <= limit // ITEMS_PER_TURN


def test_fields_that_should_stand_once_are_not_looked_at_for_ever():
    for field in (number_field(9998, 1), number_field(9999, -1), bytes_head(9999, 0)):
        with pytest.raises(CorruptBatchError, match="repeats fields"):
            counted(ApiKey.GET_METADATA, field * 100_000)


def test_a_filter_within_filters_has_an_end():
    body = b""
    for _ in range(DEPTH_MAX):
        body = bytes_head(2, len(body)) + body
        body = bytes_head(3, len(body)) + body
    body = bytes_head(5, len(body)) + body
    body = bytes_head(3, len(body)) + body

    with pytest.raises(CorruptBatchError, match="nested more than"):
        counted(ApiKey.FETCH_LOG, body)


def test_a_body_that_ends_inside_a_field_is_refused():
    path = pb.TablePath(database_name="fluss", table_name="t")
    body = pb.MetadataRequest(table_path=[path] * 2000, partitions_id=[1]).SerializeToString()
    whole = {0, *(len(body) - 3 - 12 * count for count in range(2001))}

    for end in range(len(body) - 50, len(body)):
        if end not in whole:
            with pytest.raises(CorruptBatchError):
                counted(ApiKey.GET_METADATA, body[:end])


def test_a_small_request_is_not_counted_and_a_large_one_without_lists_is_refused():
    for api in APIS:
        assert not may_be_too_long(ApiKey(api), memoryview(bytes(500)))
    body = memoryview(pb.ListTablesRequest(database_name="n" * 100_000).SerializeToString())

    assert may_be_too_long(ApiKey.LIST_TABLES, body)
    with pytest.raises(RecordTooLargeError, match="LIST_TABLES has 100004 bytes"):
        counted(ApiKey.LIST_TABLES, body)


def test_a_document_of_too_many_values_is_refused():
    check_json(b"[" + b"1," * (JSON_VALUES_MAX - 2) + b"1]", what="table")

    with pytest.raises(RecordTooLargeError, match="The table has about"):
        check_json(b"[" + b"[]," * JSON_VALUES_MAX + b"1]", what="table")
