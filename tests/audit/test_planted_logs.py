"""Damage in logs is found, named by its first bad offset, and does not hide what lies behind it."""

import pyarrow as pa
import pytest

import headwater
from headwater.audit import AuditReport, Check, Severity, audit, audit_storage
from headwater.errors import StorageError
from headwater.rows.log_batch import HEADER_BYTES, iterate, stamped
from headwater.wire.apis import ApiKey
from tests.audit.planting import editing_batches, flip, found, only, proof, segment, tampered
from tests.union.storage import Storage

COLUMNS = {"id": "BIGINT"}
ROWS = 10
BATCHES = 6


@pytest.fixture
def directory(tmp_path):
    """Return a directory with one log of a few batches."""
    with headwater.open(tmp_path / "data") as hw:
        table = hw.create_table("t", COLUMNS, buckets=1)
        for _ in range(BATCHES):
            table.append(pa.table({"id": range(ROWS)}))
    return tmp_path / "data"


async def audited_with(directory, edit, *, deep: bool = False) -> AuditReport:
    edits = {ApiKey.FETCH_LOG: editing_batches(edit)}
    async with tampered(directory, edits) as client:
        return await audit_storage(client, ["t"], deep=deep)


# ---- on disk


@pytest.mark.parametrize("number", [0, 2, BATCHES - 1])
def test_a_bit_that_flipped_on_disk_is_found(directory, number):
    path = segment(directory)
    places = [at for _, at in iterate(path.read_bytes())]
    flip(path, places[number] + HEADER_BYTES + 20)

    with headwater.open(directory) as hw:
        report = audit(hw)

    finding = only(report)
    assert (finding.check, finding.offset) == (Check.CHECKSUMS, number * ROWS)
    assert "headwater repair" in finding.remedy
    assert f"--cut-at {number * ROWS}" in finding.remedy


def test_rows_behind_damage_are_still_checked(tmp_path):
    storage = Storage.open(tmp_path / "data")
    table = storage.client.create_table("t", COLUMNS, buckets=1)
    for _ in range(BATCHES):
        table.append(pa.table({"id": range(ROWS)}))
    storage.close()
    for number in (1, 4):  # every batch has a segment of its own
        path = tmp_path / "data" / "log" / "1" / "0" / f"{number * ROWS:020d}.log"
        flip(path, HEADER_BYTES + 20)

    with headwater.open(tmp_path / "data") as hw:
        report = audit(hw)

    assert [each.offset for each in found(report, Check.CHECKSUMS)] == [ROWS, 4 * ROWS]
    assert proof(report, Check.OFFSETS).amount == (BATCHES - 2) * ROWS


def test_a_gap_on_disk_is_found_though_every_batch_is_whole(directory):
    path = segment(directory)
    data = path.read_bytes()
    (_, first), (_, second), *_ = iterate(data)
    path.write_bytes(data[: first + second] + data[2 * second :])

    with headwater.open(directory) as hw:
        report = audit(hw)

    assert only(report).offset == ROWS


# ---- on the wire: what a server that does not look would send


async def test_a_batch_that_is_left_out_is_a_gap(directory):
    report = await audited_with(directory, lambda batches: [*batches[:2], *batches[3:]])

    finding = only(report)
    assert (finding.check, finding.offset) == (Check.OFFSETS, 2 * ROWS)
    assert finding.message == "The offsets 20 to 29 are missing."


async def test_batches_that_are_left_out_at_the_end_are_a_gap(directory):
    def leave_out(batches):
        stamp = {"base_offset": 1000, "timestamp_ms": 2**50}
        return [b"".join(stamped(batches[-1], **stamp))] if len(batches) == 1 else batches[:-1]

    report = await audited_with(directory, leave_out)

    assert only(report).message == f"The offsets {(BATCHES - 1) * ROWS} to 999 are missing."


async def test_a_batch_that_comes_twice_is_found(directory):
    report = await audited_with(directory, lambda batches: [*batches[:2], *batches[1:]])

    finding = only(report)
    assert (finding.check, finding.offset) == (Check.OFFSETS, ROWS)
    assert "repeated" in finding.message


async def test_two_batches_in_the_wrong_order_are_found(directory):
    report = await audited_with(
        directory, lambda batches: [batches[0], batches[2], batches[1], *batches[3:]]
    )

    errors = [each for each in report.findings if each.severity is Severity.ERROR]
    assert [(each.check, each.offset) for each in errors] == [(Check.OFFSETS, ROWS)] * 2


async def test_a_checksum_that_does_not_fit_is_found(directory):
    def damage(batches):
        return [batches[0], batches[1][:-1] + bytes([batches[1][-1] ^ 1]), *batches[2:]]

    report = await audited_with(directory, damage)

    finding = only(report)
    assert (finding.check, finding.offset) == (Check.CHECKSUMS, ROWS)


async def test_times_that_go_back_are_a_warning(directory):
    def set_back(batches):
        stamp = {"base_offset": ROWS, "timestamp_ms": 1}
        return [batches[0], b"".join(stamped(batches[1], **stamp)), *batches[2:]]

    report = await audited_with(directory, set_back)

    assert only(report).severity is Severity.WARNING
    assert report.is_clean


async def test_a_bucket_that_nobody_answers_for_does_not_hold_up_the_others(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        for name in ("a", "b"):
            hw.create_table(name, COLUMNS, buckets=1).append([{"id": 1}])
    refused = iter([True])

    def refuse_once(body: bytes) -> bytes:
        if next(refused, False):
            raise StorageError("The disk is gone.")
        return body

    async with tampered(tmp_path / "data", {ApiKey.LIST_OFFSETS: refuse_once}) as client:
        report = await audit_storage(client)

    finding = only(report)
    assert (finding.check, finding.table) == (Check.READABLE, "fluss.a")
    assert [each.amount for each in report.proofs if each.check is Check.OFFSETS] == [0, 1]
