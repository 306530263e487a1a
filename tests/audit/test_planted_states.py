"""A state, a changelog or a look-up that lies is found."""

import shutil
from collections.abc import Callable

import pytest

import headwater
from headwater.audit import AuditReport, Check, audit, audit_storage
from headwater.model.arrow import arrow_schema
from headwater.rows.log_batch import ChangeType
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from tests.audit.planting import (
    forget_row,
    found,
    only,
    proof,
    rewrite_changes,
    segment,
    tampered,
)
from tests.union.storage import Storage

COLUMNS = {"id": "BIGINT", "name": "STRING"}
KEYS = 20
Change = dict[str, object]


def rows(name: str, count: int = KEYS) -> list[dict[str, object]]:
    return [{"id": at, "name": f"{name}{at}"} for at in range(count)]


@pytest.fixture
def directory(tmp_path):
    """Return a directory with a primary-key table: inserts, then updates of half, then a delete."""
    with headwater.open(tmp_path / "data") as hw:
        table = hw.create_table("t", COLUMNS, primary_key="id", buckets=1)
        table.upsert(rows("a"))
        table.upsert(rows("b", KEYS // 2))
        table.delete([{"id": 5}])
    return tmp_path / "data"


def audited(directory, *, deep: bool = True) -> AuditReport:
    with headwater.open(directory) as hw:
        return audit(hw, deep=deep)


def rewrite(directory, edit: Callable[[list[int], list[Change]], None]) -> None:
    """Change what the changelog says, with good checksums; the state is made from it anew."""
    with headwater.open(directory) as hw:
        schema = arrow_schema(hw.table("t").info.schema)
    rewrite_changes(segment(directory), schema, edit)
    shutil.rmtree(segment(directory).parent / "kv")


# ---- changelogs


def test_a_wrong_row_before_an_update_is_found(directory):
    def edit(types, changes):
        for at, kind in enumerate(types):
            if kind == ChangeType.UPDATE_BEFORE and changes[at]["id"] == 3:
                changes[at]["name"] = "never"

    rewrite(directory, edit)

    finding = only(audited(directory))
    assert (finding.check, finding.offset) == (Check.STATE, KEYS + 6)
    assert "shows another row than the one before it" in finding.message


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ChangeType.INSERT, "inserts a key that already exists"),
        (ChangeType.UPDATE_AFTER, "half of an update"),
    ],
)
def test_a_delete_that_became_something_else_is_found(directory, kind, said):
    def edit(types, changes):
        types[:] = [kind if each == ChangeType.DELETE else each for each in types]

    rewrite(directory, edit)

    misfit = only(audited(directory))
    assert misfit.offset == 2 * KEYS
    assert said in misfit.message


def test_a_quick_audit_counts_what_the_changelog_leaves(directory):
    def edit(types, changes):
        types[:] = [ChangeType.INSERT if each == ChangeType.DELETE else each for each in types]

    rewrite(directory, edit)

    finding = only(audited(directory, deep=False))
    assert finding.message == (
        "The state holds 20 rows, but the changelog up to offset 41 leaves 21."
    )


# ---- states


@pytest.fixture
def saved(tmp_path):
    """Return a directory whose state was saved, so that it is not made from the log."""
    storage = Storage.open(tmp_path / "data")
    table = storage.client.create_table("t", COLUMNS, primary_key="id", buckets=1)
    table.upsert(rows("a"))
    table.upsert(rows("b", KEYS // 2))
    storage.save_states()
    storage.close()
    return tmp_path / "data"


@pytest.mark.parametrize("deep", [False, True])
def test_a_row_that_a_saved_state_lacks_is_found(saved, deep):
    forget_row(saved)

    report = audited(saved, deep=deep)

    (finding,) = found(report, Check.STATE)
    said = "is missing although the changelog has it" if deep else "holds 19 rows"
    assert said in finding.message
    assert "--rebuild-state" in finding.remedy


def test_a_row_that_another_row_took_the_place_of_is_found(saved):
    def edit(types, changes):
        for at, kind in enumerate(types):
            if kind != ChangeType.UPDATE_BEFORE and changes[at]["id"] == KEYS - 1:
                changes[at]["name"] = "as it was written"

    path = saved / "log" / "1" / "0" / f"{0:020d}.log"
    with headwater.open(saved) as hw:
        schema = arrow_schema(hw.table("t").info.schema)
    rewrite_changes(path, schema, edit)

    finding = only(audited(saved))
    assert (finding.check, finding.offset) == (Check.STATE, KEYS - 1)
    assert f"differs from the changelog, the first with the key id={KEYS - 1}" in (finding.message)


def test_a_changelog_that_was_cut_still_proves_the_keys_that_it_holds(tmp_path):
    storage = Storage.open(tmp_path / "data")
    table = storage.client.create_table("t", COLUMNS, primary_key="id", buckets=1)
    table.upsert(rows("a"))
    storage.save_states()
    table.upsert(rows("b", 5))
    storage.cut(1, checked=False)
    table.upsert(rows("c", 3))
    storage.close()

    report = audited(tmp_path / "data")

    assert report.findings == ()
    assert proof(report, Check.STATE).amount == KEYS


# ---- look-ups


async def test_a_look_up_that_finds_nothing_is_noticed(directory):
    def lose(body: bytes) -> bytes:
        answer = pb.LookupResponse.FromString(body)
        for bucket in answer.buckets_resp:
            bucket.values[3].ClearField("values")
        return answer.SerializeToString()

    async with tampered(directory, {ApiKey.LOOKUP: lose}) as client:
        report = await audit_storage(client, deep=True)

    finding = only(report)
    assert finding.check is Check.LOOKUPS
    assert finding.message.startswith("1 of 19 lookups do not return the expected row")


async def test_look_ups_that_give_rows_of_others_are_noticed(directory):
    def swap(body: bytes) -> bytes:
        answer = pb.LookupResponse.FromString(body)
        for bucket in answer.buckets_resp:
            first, second = bucket.values[0].values, bucket.values[1].values
            bucket.values[0].values, bucket.values[1].values = second, first
        return answer.SerializeToString()

    async with tampered(directory, {ApiKey.LOOKUP: swap}) as client:
        report = await audit_storage(client, deep=True)

    assert only(report).check is Check.LOOKUPS


async def test_a_look_up_that_gives_an_older_row_is_noticed(directory):
    answers: list[bytes] = []

    def answer_as_before(body: bytes) -> bytes:
        answers.append(body)
        return answers[0]

    async with tampered(directory, {ApiKey.LOOKUP: answer_as_before}) as client:
        table = await client.table("t")
        await table.lookup([{"id": at} for at in range(KEYS) if at != 5])
        await table.upsert(rows("c", 2))
        report = await audit_storage(client, deep=True)

    assert only(report).check is Check.LOOKUPS


def refuse_scans(body: bytes) -> bytes:
    return pb.ScanKvResponse(error_code=2, error_message="no").SerializeToString()


async def test_where_a_state_cannot_be_asked_for_its_rows_are_looked_up(directory):
    async with tampered(directory, {ApiKey.SCAN_KV: refuse_scans}) as client:
        report = await audit_storage(client, deep=True)

    assert report.findings == ()
    assert "cannot return all rows" in proof(report, Check.STATE).note
    assert proof(report, Check.LOOKUPS).amount == KEYS


@pytest.mark.parametrize("key", [0, 5, KEYS - 1])
async def test_where_a_state_cannot_be_asked_for_wrong_rows_are_found_by_key(directory, key):
    def mix_up(body: bytes) -> bytes:
        answer = pb.LookupResponse.FromString(body)
        for bucket in answer.buckets_resp:
            given = {each.values for each in bucket.values}
            bucket.values[key].values = next(iter(given - {bucket.values[key].values, b""}))
        return answer.SerializeToString()

    edits = {ApiKey.SCAN_KV: refuse_scans, ApiKey.LOOKUP: mix_up}
    async with tampered(directory, edits) as client:
        report = await audit_storage(client, deep=True)

    assert only(report).check is Check.LOOKUPS
