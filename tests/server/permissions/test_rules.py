"""Rules as requests meet them: every call, other clients, and what changes while they wait."""

import asyncio

import pytest
from google.protobuf.message import Message

from headwater.errors import AccessError, HeadwaterError, RequestError
from headwater.model.acl import Acl, Operation
from headwater.server.permissions.needs import GIVES, NEEDS, Gives
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS, ApiKey
from headwater.wire.messages import encode_columns
from tests.flows.upserting import Rows, keyed_json
from tests.server.permissions.asking import (
    INSIDER,
    Asking,
    acl,
    ask,
    grant,
    guarded,
    message_of,
    session_of,
)
from tests.server.permissions.calls import requests_about
from tests.server.support import fetch_request, until

ANN = "User:ann"
ID, NAME, SCORE = 0, 1, 2
ROWS = [(1, "HIDDEN", 1), (2, "SEEN", 20), (3, "HIDDEN", 3), (4, "SEEN", 40)]
LAKED = {"datalake_enabled": "true", "datalake_format": "iceberg"}
# By number, as they are sent.
LEAF, COMPOUND, AND, GREATER, BIGINT = 0, 1, 0, 4, 4


def above(score: int) -> pb.Predicate:
    """Return the filter `score > …` as clients of ours send it."""
    literal = pb.LiteralValue(literal_type=BIGINT, is_null=False, bigint_value=score)
    leaf = pb.LeafPredicate(function=GREATER, field_id=SCORE, literals=[literal])
    return pb.Predicate(type=LEAF, leaf=leaf)


def ruled(table_id: int, *columns: int, score: int | None = None, who: str = ANN) -> pb.AclInfo:
    message = message_of(acl(who, "READ", "fluss.orders"))
    message.rule_table_id = table_id
    message.rule_columns.extend(columns)
    if score is not None:
        message.rule_filter.CopyFrom(above(score))
    return message


async def granted(server, *messages: pb.AclInfo) -> list[pb.CreatedAcl]:
    return list((await ask(server, pb.CreateAclsRequest(acl=messages), INSIDER)).aclRes)


async def filled(server, **properties: str) -> Rows:
    """Make the table `fluss.orders` with rows of which some are hidden."""
    content = keyed_json(**properties)
    path = pb.TablePath(database_name="fluss", table_name="orders")
    request = pb.CreateTableRequest(table_path=path, table_json=content, ignore_if_exists=False)
    await ask(server, request, INSIDER)
    info = await ask(server, pb.GetTableInfoRequest(table_path=path), INSIDER)
    rows = Rows(Asking(server, INSIDER), info.table_id, content, path)
    if not properties:
        await rows.put(*ROWS)
    return rows


def row_requests(rows: Rows, columns: tuple[int, ...] = ()) -> dict[ApiKey, Message]:
    """Return a request for every call that hands out rows, for some columns or for all."""
    keys, told = rows.keys([row[0] for row in ROWS]), encode_columns(columns)
    fetch = fetch_request(rows.table_id)
    if columns:
        fetch.tables_req[0].projection_pushdown_enabled = True
        fetch.tables_req[0].projected_fields.extend(columns)
    lookup = pb.LookupBucketRequest(bucket_id=0, keys=keys)
    prefix = pb.PrefixLookupBucketRequest(bucket_id=0, keys=keys)
    scan = pb.ScanKvBucketRequest(table_id=rows.table_id, bucket_id=0)
    named = {"table_id": rows.table_id, "columns": told}
    return {
        ApiKey.FETCH_LOG: fetch,
        ApiKey.LOOKUP: pb.LookupRequest(buckets_req=[lookup], **named),
        ApiKey.PREFIX_LOOKUP: pb.PrefixLookupRequest(buckets_req=[prefix], **named),
        ApiKey.LIMIT_SCAN: pb.LimitScanRequest(bucket_id=0, limit=9, **named),
        ApiKey.SCAN_KV: pb.ScanKvRequest(
            bucket_scan_req=scan, batch_size_bytes=1 << 20, call_seq_id=0, columns=told
        ),
    }


async def told(server, request: Message, session) -> bytes:
    """Return all that an answer or a refusal tells."""
    try:
        return (await ask(server, request, session)).SerializeToString()
    except HeadwaterError as fault:
        return str(fault).encode()


def test_every_call_says_what_it_gives_and_those_that_read_give_something():
    without_rows = {ApiKey.GET_PRODUCER_OFFSETS, ApiKey.RELEASE_KV_SNAPSHOT_LEASE}
    reads = {api for api, need in NEEDS.items() if need.operation is Operation.READ}

    assert GIVES.keys() == {api.key for api in APIS.values()}
    assert {api for api in reads if GIVES[api] is Gives.NOTHING} == without_rows
    rows = Rows(None, 1, keyed_json(), pb.TablePath(database_name="a", table_name="b"))
    assert row_requests(rows).keys() == {api for api in GIVES if GIVES[api] is Gives.ROWS}


async def test_rows_out_of_sight_come_in_no_answer_to_any_call(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await grant(server, acl(ANN, "ALL", "cluster"))
        await granted(server, ruled(rows.table_id, score=9))
        every = requests_about("fluss", "orders", rows.table_id)
        asked = [*every.values(), *row_requests(rows).values()]
        without_drops = [each for each in asked if "Drop" not in type(each).__name__]

        answers = [await told(server, each, session_of("ann")) for each in without_drops]
        giving = [
            await told(server, each, session_of("ann")) for each in row_requests(rows).values()
        ]
        whole = [await told(server, each, INSIDER) for each in row_requests(rows).values()]

    assert not any(b"HIDDEN" in each for each in answers)
    assert all(b"SEEN" in each for each in giving)
    assert all(b"HIDDEN" in each for each in whole)


async def test_values_of_other_columns_come_in_no_answer_and_are_refused_by_name(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await grant(server, acl(ANN, "ALL", "cluster"))
        await granted(server, ruled(rows.table_id, ID, SCORE))
        session = session_of("ann")

        allowed = [
            await told(server, each, session) for each in row_requests(rows, (ID, SCORE)).values()
        ]
        denied = [
            await told(server, each, session)
            for columns in [(), (ID, NAME)]
            for each in row_requests(rows, columns).values()
        ]

    assert not any(b"SEEN" in each or b"HIDDEN" in each for each in [*allowed, *denied])
    assert all(b"may not READ" not in each for each in allowed)
    assert all(b"may not READ name of table fluss.orders" in each for each in denied)
    assert all(b"Ask for the columns that may be read: id, score." in each for each in denied)


async def test_a_user_with_a_rule_is_told_of_no_file_and_no_place_of_the_lake(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server, **LAKED)
        await grant(server, acl(ANN, "ALL", "cluster"), acl("User:bob", "ALL", "cluster"))
        await granted(server, ruled(rows.table_id, ID))
        asked = requests_about("fluss", "orders", rows.table_id)
        asked = {api: each for api, each in asked.items() if "DROP" not in api.name}
        root = str(tmp_path).encode()

        answers = {api: await told(server, each, session_of("ann")) for api, each in asked.items()}
        others = {api: await told(server, each, session_of("bob")) for api, each in asked.items()}

    assert [api.name for api, each in answers.items() if root in each] == []
    assert root in others[ApiKey.GET_TABLE_INFO]
    assert root in others[ApiKey.GET_METADATA]
    refused = [api for api in asked if GIVES[api] is Gives.FILES]
    silent = {ApiKey.GET_FILESYSTEM_SECURITY_TOKEN}  # Ann may READ all of other tables.
    assert all(b"only some columns" in answers[api] for api in set(refused) - silent)


async def test_a_token_for_files_takes_a_table_that_may_be_read_as_a_whole(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await granted(server, ruled(rows.table_id, ID))
        request = pb.GetFileSystemSecurityTokenRequest()

        with pytest.raises(AccessError, match="on all rows and columns"):
            await ask(server, request, session_of("ann"))


async def test_rules_of_a_user_of_groups_and_of_everybody_hold_together(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        table_id = rows.table_id
        await grant(server, acl("User:ann", "ALL", "fluss"), acl("Group:ops", "READ", "cluster"))
        await granted(
            server,
            ruled(table_id, ID, NAME, score=2),
            ruled(table_id, ID, SCORE, score=9, who="Group:team"),
            ruled(table_id, score=30, who="*"),
        )
        session = session_of("ann", "ops", "team")

        answer = await ask(server, row_requests(rows, (ID,))[ApiKey.LOOKUP], session)
        refusal = await told(server, row_requests(rows)[ApiKey.LOOKUP], session)
        free = await ask(server, row_requests(rows)[ApiKey.LOOKUP], session_of("root"))

    found = [value.HasField("values") for value in answer.buckets_resp[0].values]
    assert found == [False, False, False, True]
    assert b"may not READ name, score" in refusal
    assert all(value.HasField("values") for value in free.buckets_resp[0].values)


@pytest.mark.parametrize("changes", [(ID,), (ID, NAME, SCORE)])
async def test_a_long_poll_ends_when_its_rule_changes(tmp_path, changes):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await granted(server, ruled(rows.table_id, ID, NAME))
        request = row_requests(rows, (ID, NAME))[ApiKey.FETCH_LOG]
        request.max_wait_ms = 60_000
        request.tables_req[0].buckets_req[0].fetch_offset = len(ROWS)
        polling = asyncio.create_task(ask(server, request, session_of("ann")))
        await until(lambda: len(server._services.polls) == 1)

        await granted(server, ruled(rows.table_id, *changes))

        (bucket,) = (await polling).tables_resp[0].buckets_resp
        assert "has changed" in bucket.error_message
        assert not bucket.records


async def test_an_open_scan_gives_what_may_be_read_now(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await granted(server, ruled(rows.table_id, score=0))
        session = session_of("ann")
        begin = row_requests(rows)[ApiKey.SCAN_KV]
        begin.batch_size_bytes = 1
        first = await ask(server, begin, session)

        await granted(server, ruled(rows.table_id, score=9))
        parts = []
        for number in range(1, len(ROWS)):
            request = pb.ScanKvRequest(
                scanner_id=first.scanner_id, call_seq_id=number, batch_size_bytes=1
            )
            parts.append((await ask(server, request, session)).records)

    assert b"HIDDEN" in first.records
    assert not any(b"HIDDEN" in part for part in parts)
    assert sum(b"SEEN" in part for part in parts) == 2


async def test_a_reader_that_sees_nothing_gets_ahead_all_the_same(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await granted(server, ruled(rows.table_id, score=99))
        request = row_requests(rows)[ApiKey.FETCH_LOG]

        answer = await ask(server, request, session_of("ann"))

    (bucket,) = answer.tables_resp[0].buckets_resp
    assert bucket.filtered_end_offset == bucket.high_watermark == len(ROWS)
    assert b"SEEN" not in bucket.records
    assert len(bucket.records) > 0  # A batch without rows, for clients that go by batches alone.


async def test_a_rule_of_an_earlier_table_of_the_name_lets_nothing_be_read(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await granted(server, ruled(rows.table_id, ID))
        await ask(
            server, pb.DropTableRequest(table_path=rows.path, ignore_if_not_exists=False), INSIDER
        )
        anew = await filled(server)

        refusal = await told(server, row_requests(anew, (ID,))[ApiKey.LOOKUP], session_of("ann"))

    assert b"was said of an earlier table" in refusal


async def test_a_rule_follows_a_column_that_is_renamed_and_refuses_one_that_is_dropped(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await granted(server, ruled(rows.table_id, score=9))
        change = pb.AlterTableRequest(table_path=rows.path, ignore_if_not_exists=False)
        renamed, dropped = pb.AlterTableRequest(), pb.AlterTableRequest()
        renamed.CopyFrom(change)
        renamed.rename_columns.add(old_column_name="score", new_column_name="points")
        dropped.CopyFrom(change)
        dropped.drop_columns.add(column_name="points")
        answers = []

        for alter in (renamed, dropped):
            await ask(server, alter, INSIDER)
            request = row_requests(rows)[ApiKey.FETCH_LOG]
            answers.append(await told(server, request, session_of("ann")))

    assert b"SEEN" in answers[0]
    assert b"HIDDEN" not in answers[0]
    assert b"is no longer known" in answers[1]


async def test_a_client_that_knows_no_rules_is_shown_them_and_cannot_take_them_away(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await granted(server, ruled(rows.table_id, ID, score=9))
        whole = pb.AclFilter(resource_type=1, operation_type=1, permission_type=1)
        plain = message_of(acl(ANN, "READ", "fluss.orders"))

        (shown,) = (await ask(server, pb.ListAclsRequest(acl_filter=whole), INSIDER)).acl
        with pytest.raises(RequestError, match="Revoke READ first"):
            await granted(server, plain)

    assert shown.resource_name == "fluss.orders (id) where score > 9"


async def test_rules_that_cannot_be_followed_are_refused_and_change_nothing(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        nested = ruled(rows.table_id, score=9)
        inner = pb.Predicate(type=COMPOUND, compound=pb.CompoundPredicate(function=AND))
        inner.compound.children.append(nested.rule_filter)
        outer = pb.Predicate(type=COMPOUND, compound=pb.CompoundPredicate(function=AND))
        outer.compound.children.append(inner)
        nested.rule_filter.CopyFrom(outer)
        writes = ruled(rows.table_id, ID)
        writes.operation_type = Operation.WRITE
        wrong = [
            nested,
            writes,
            ruled(rows.table_id, 99),
            ruled(rows.table_id + 7, ID),
            ruled(rows.table_id),
        ]

        answers = [(await granted(server, each))[0].error_code for each in wrong]

        assert all(answers)
        assert not server._services.catalog.acls.permissions.entries


async def test_a_lookup_that_inserts_is_refused_where_rows_seem_to_be_missing(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await grant(server, acl(ANN, "WRITE", "fluss.orders"))
        await granted(server, ruled(rows.table_id, score=9))
        request = row_requests(rows)[ApiKey.LOOKUP]
        request.insert_if_not_exists = True

        with pytest.raises(AccessError, match="cannot insert what it does not find"):
            await ask(server, request, session_of("ann"))


async def test_rules_are_there_after_a_restart(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await filled(server)
        await granted(server, ruled(rows.table_id, ID, score=9))
        (before,) = server._services.catalog.acls.permissions.entries

    async with guarded(tmp_path / "data") as server:
        (after,) = server._services.catalog.acls.permissions.entries

    assert isinstance(after, Acl)
    assert (after, after.rule) == (before, before.rule)
