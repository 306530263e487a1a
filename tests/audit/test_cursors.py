"""Cursors must stand where their logs reach."""

import pytest

import headwater
from headwater.audit import Check, Severity, audit, cursors
from headwater.audit.cursors import Reach, judged
from headwater.client.cursors.rows import GroupKey
from headwater.errors import PartitionMissingError
from headwater.model.bucket import OffsetRange
from headwater.read.offsets import Place, list_offsets
from tests.audit.planting import found, only, proof
from tests.cases import cases

COLUMNS = {"id": "BIGINT"}
GROUP = GroupKey("billing", "fluss.t")


@pytest.fixture
def hw(tmp_path):
    with headwater.open(tmp_path / "data") as opened:
        opened.create_table("t", COLUMNS, buckets=2).append([{"id": at} for at in range(20)])
        opened.cursors.reset("billing", "t", to="latest")
        yield opened


def reach(start: int, end: int, tiered_end: int = 0) -> Reach:
    return Reach(place=Place(None, 0), log=OffsetRange(start, end), tiered_end=tiered_end)


def move(hw, position: int) -> None:
    """Write a position as a member would commit it."""
    cursors = hw.table("headwater.cursors")
    slots = [row for row in cursors.scan().to_pylist() if row["slot"].startswith("bucket/")]
    cursors.upsert([{**row, "position": position} for row in slots])


@cases("position", [5, 7, 10])
def test_a_position_that_the_log_reaches_is_good(position):
    assert judged(GROUP, position, reach(5, 10)) == []


def test_a_position_behind_the_end_was_never_written():
    (finding,) = judged(GROUP, 11, reach(5, 10))

    assert finding.severity is Severity.ERROR
    assert (finding.offset, finding.bucket) == (11, 0)
    assert "headwater cursor reset billing fluss.t --to latest" in finding.remedy


def test_a_position_before_the_start_is_a_warning_unless_the_lake_holds_what_lies_between():
    (finding,) = judged(GROUP, 4, reach(5, 10, tiered_end=3))

    assert finding.severity is Severity.WARNING
    assert judged(GROUP, 4, reach(5, 10, tiered_end=5)) == []


@pytest.mark.parametrize("times", [1, 99])
def test_a_partition_that_is_dropped_meanwhile_makes_no_table_gone(hw, monkeypatch, times):
    faults = [PartitionMissingError("There is no such partition.")] * times

    async def listing(*arguments: object, **options: object) -> object:
        if faults:
            raise faults.pop()
        return await list_offsets(*arguments, **options)

    monkeypatch.setattr(cursors, "list_offsets", listing)

    messages = [each.message for each in audit(hw).findings]

    assert not any("gone" in each for each in messages)
    assert len(messages) == (times > 1)


def test_cursors_that_are_well_are_counted(hw):
    report = audit(hw)

    assert report.findings == ()
    assert proof(report, Check.CURSORS).amount == 2


def test_a_cursor_beyond_the_end_of_its_log_is_found(hw):
    move(hw, 1000)

    report = audit(hw)

    assert [each.offset for each in found(report, Check.CURSORS)] == [1000, 1000]
    assert not report.is_clean


def test_a_cursor_over_a_table_that_is_gone_is_a_warning(hw):
    hw.drop_table("t")

    report = audit(hw)

    assert "reads a table that no longer exists" in only(report).message
    assert report.is_clean


def test_a_table_that_was_made_anew_has_no_old_positions(hw):
    move(hw, 1000)
    hw.drop_table("t")
    hw.create_table("t", COLUMNS)

    assert audit(hw).findings == ()


def test_only_the_cursors_of_the_named_tables_are_audited(hw):
    move(hw, 1000)
    hw.create_table("other", COLUMNS)

    assert audit(hw, ["other"]).is_clean
