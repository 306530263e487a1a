"""Logs that are whole give nothing; each kind of damage to them is found, with its offset."""

from headwater.audit.files.walk import audit_disk
from headwater.audit.report import Check, Notes, Severity
from headwater.log.retention import LogSettings
from headwater.log.segment import CHECKPOINT, Mark, index_name, segment_name, segment_names
from headwater.log.small_files import (
    Checkpoint,
    decode_checkpoint,
    decode_index,
    encode_checkpoint,
    encode_index,
)
from headwater.log.writers import KeptBatch
from headwater.rows.log_batch import HEADER_BYTES, build_batch, iterate, read_header
from headwater.store.memory import MemoryDisk
from tests.audit.files.support import errors, findings, warnings
from tests.cases import cases
from tests.log.support import (
    DIRECTORY,
    append,
    batch,
    content,
    filled,
    flip,
    open_log,
    overwrite,
    path_of,
)

ONE_SEGMENT = LogSettings(index_interval_bytes=120)


def closed(count: int = 20, *, settings: LogSettings | None = None) -> MemoryDisk:
    """Return the disk of a log of several segments that was closed."""
    disk = MemoryDisk()
    log = filled(disk, count, settings=settings) if settings else filled(disk, count)
    log.close()
    return disk


def bases(disk: MemoryDisk) -> list[int]:
    return [name.base_offset for name in segment_names(disk.listdir(DIRECTORY))]


def positions(disk: MemoryDisk, base: int) -> list[int]:
    return [position for _, position in iterate(content(disk, segment_name(base)))]


def test_a_log_that_was_closed_gives_nothing_and_is_counted():
    disk, notes = closed(), Notes()

    audit_disk(disk, notes, deep=False)

    assert notes.findings == ()
    proven = {(each.check, each.unit): each.amount for each in notes.proofs}
    assert proven[Check.OFFSETS, "rows"] == 20
    assert proven[Check.CHECKSUMS, "batches"] == 20
    assert proven[Check.FILES, "files"] == len(disk.listdir(DIRECTORY))


def test_an_audit_changes_nothing():
    disk = closed()
    before = {name: content(disk, name) for name in disk.listdir(DIRECTORY)}

    findings(disk)

    assert {name: content(disk, name) for name in disk.listdir(DIRECTORY)} == before
    assert disk.unsynced() == ()


def test_a_log_that_was_killed_gives_nothing():
    disk = MemoryDisk()
    filled(disk)

    assert findings(disk) == []


def test_a_log_that_was_recovered_and_went_on_gives_nothing():
    disk = MemoryDisk()
    filled(disk)
    log = open_log(disk)
    append(log, *("again " * 4 for _ in range(10)))
    log.checkpoint()
    append(log, "more")
    log.close()

    assert findings(disk) == []


def test_a_log_that_retention_has_cut_gives_nothing():
    disk = MemoryDisk()
    log = filled(disk)
    log.delete_before(12)
    log.close()

    assert findings(disk) == []
    assert bases(disk)[0] > 0


def test_a_torn_tail_is_a_warning():
    disk = closed()
    last = segment_name(bases(disk)[-1])
    overwrite(disk, last, content(disk, last) + batch("torn")[:-3])

    (found,) = findings(disk)

    assert (found.severity, found.offset) == ("warning", 20)
    assert "the next start cuts the bytes off" in found.remedy


def test_a_hole_before_whole_batches_at_the_end_is_an_error():
    disk = MemoryDisk()
    filled(disk, 5, settings=ONE_SEGMENT)
    (base,) = bases(disk)
    flip(disk, segment_name(base), positions(disk, base)[2] + HEADER_BYTES)

    (found,) = findings(disk)

    assert (found.severity, found.check, found.offset) == ("error", Check.OFFSETS, 2)
    assert "Offsets 2 to 4" in found.message
    assert "headwater repair DIRECTORY 1 --bucket 0 --cut-at 2" in found.remedy


def test_a_tail_that_the_checkpoint_knew_is_an_error_when_it_is_cut():
    disk = closed(5, settings=ONE_SEGMENT)
    name = segment_name(0)
    overwrite(disk, name, content(disk, name)[: positions(disk, 0)[3]])

    (found,) = findings(disk)

    assert (found.severity, found.offset) == ("error", 3)


@cases("place", [0, 9, 14, 30, HEADER_BYTES + 1])
def test_a_flipped_bit_in_a_sealed_segment_is_found_wherever_it_is(place):
    disk = closed()
    base, following = bases(disk)[1:3]
    flip(disk, segment_name(base), positions(disk, base)[-1] + place)

    (found,) = findings(disk)

    assert found.severity == "error"
    assert base <= found.offset < following


def test_a_missing_segment_is_an_error_at_its_first_offset():
    disk = closed()
    gone, following = bases(disk)[1:3]
    disk.unlink(path_of(segment_name(gone)))

    (found,) = errors(disk)

    assert (found.check, found.offset) == (Check.OFFSETS, gone)
    assert f"Offsets {gone} to {following - 1}" in found.message
    (orphan,) = warnings(disk)
    assert "index without a segment" in orphan.message


def test_a_missing_first_segment_is_an_error():
    disk = closed()
    disk.unlink(path_of(segment_name(0)))

    (found,) = errors(disk)

    assert found.offset == 0


def test_a_missing_last_segment_is_an_error_when_the_checkpoint_knew_it():
    disk = closed()
    last = bases(disk)[-1]
    disk.unlink(path_of(segment_name(last)))

    (found,) = errors(disk)

    assert found.offset == last


def test_offsets_in_two_files_are_an_error():
    disk = closed()
    first, second = bases(disk)[:2]
    extra = content(disk, segment_name(second))
    overwrite(disk, segment_name(first), content(disk, segment_name(first)) + extra)
    disk.unlink(path_of(index_name(first)))

    (found,) = errors(disk)

    assert found.offset == second
    assert "two files" in found.message


@cases("name", [CHECKPOINT, index_name(0)])
def test_a_flipped_bit_in_a_small_file_is_an_error_that_can_be_rebuilt(name):
    disk = closed()
    flip(disk, path_of(name).rpartition("/")[2], 12)

    (found,) = errors(disk)

    assert found.check is Check.CHECKSUMS
    assert "--rebuild-index" in found.remedy


def test_an_index_of_other_bytes_is_an_error():
    disk = closed()
    marks = decode_index(content(disk, index_name(0)))
    off = Mark(marks[1].offset, marks[1].position + 1, marks[1].timestamp_ms)
    overwrite(disk, index_name(0), encode_index((marks[0], off, *marks[2:])))

    (found,) = errors(disk)

    assert found.offset == 0
    assert "but no batch begins there" in found.message


def test_an_index_that_ends_early_is_an_error():
    disk = closed()
    marks = decode_index(content(disk, index_name(0)))
    overwrite(disk, index_name(0), encode_index(marks[:-1]))

    (found,) = errors(disk)

    assert "ends at byte" in found.message


def test_a_changed_time_is_found_by_the_marks():
    disk = closed(3, settings=ONE_SEGMENT)
    flip(disk, segment_name(0), positions(disk, 0)[1] + 13)

    (found,) = errors(disk)

    assert "match" in found.message or "goes back" in found.message


def with_writers(disk: MemoryDisk, *sequences: int) -> Checkpoint:
    log = open_log(disk, settings=ONE_SEGMENT)
    for sequence in sequences:
        log.append([batch("x", writer_id=7, sequence=sequence)], timestamp_ms=1_000)
    log.close()
    return decode_checkpoint(content(disk, CHECKPOINT))


def test_writers_that_the_checkpoint_remembers_rightly_give_nothing():
    disk = MemoryDisk()
    with_writers(disk, 0, 1, 2, 3, 4, 5, 6)

    assert findings(disk) == []


def test_a_writer_whose_last_batch_is_not_remembered_is_an_error():
    disk = MemoryDisk()
    known = with_writers(disk, 0, 1, 2)
    forgetful = Checkpoint(known.start_offset, known.marks, {7: known.writers[7][:-1]})
    overwrite(disk, CHECKPOINT, encode_checkpoint(forgetful))

    (found,) = errors(disk)

    assert found.offset == 2
    assert "would be accepted twice" in found.message


def test_a_writer_that_is_remembered_at_another_place_is_an_error():
    disk = MemoryDisk()
    known = with_writers(disk, 0, 1, 2)
    other = KeptBatch(2, 1, 2, 1_000)
    wrong = Checkpoint(known.start_offset, known.marks, {7: (*known.writers[7][:1], other)})
    overwrite(disk, CHECKPOINT, encode_checkpoint(wrong))

    assert errors(disk)[0].offset == 1


def test_a_writer_that_begins_anew_is_worth_a_look():
    disk = MemoryDisk()
    with_writers(disk, 0, 1)
    traits = {"writer_id": 7, "sequence": 0, "base_offset": 2, "timestamp_ms": 1_000}
    anew = build_batch(b"x", schema_id=1, record_count=1, **traits)
    overwrite(disk, segment_name(0), content(disk, segment_name(0)) + anew)

    found = [each for each in findings(disk) if each.offset == 2]

    assert [each.severity for each in found] == [Severity.WARNING]
    assert "started again" in found[0].message


def test_a_batch_that_a_writer_sent_twice_is_an_error():
    disk = MemoryDisk()
    log = open_log(disk, settings=ONE_SEGMENT)
    log.append([batch("x", writer_id=7, sequence=0)], timestamp_ms=1_000)
    log.append([batch("y", writer_id=7, sequence=1)], timestamp_ms=1_000)
    log.sync()
    twice = bytearray(content(disk, segment_name(0)))
    again = bytearray(twice[positions(disk, 0)[1] :])
    again[:8] = (2).to_bytes(8, "little")
    overwrite(disk, segment_name(0), bytes(twice + again))

    (found,) = errors(disk)

    assert (found.offset, read_header(again).sequence) == (2, 1)
    assert "sent batch 1 after batch 1" in found.message


def test_a_segment_that_was_set_aside_is_an_error_that_names_its_offsets():
    disk = closed()
    base, following = bases(disk)[1:3]
    flip(disk, segment_name(base), positions(disk, base)[1] + HEADER_BYTES)
    disk.unlink(path_of(CHECKPOINT))
    open_log(disk).close()

    (found,) = errors(disk)

    assert ".damaged" in found.message
    assert f"Offsets {base + 1} to {following - 1}" in found.message


def test_what_was_cut_off_at_a_start_is_a_warning_that_says_what_it_holds():
    disk = closed()
    last = segment_name(bases(disk)[-1])
    overwrite(disk, last, content(disk, last) + batch("torn")[:-3])
    open_log(disk).close()

    (found,) = findings(disk)

    assert found.severity == "warning"
    assert "torn-1 holds what recovery cut off the log" in found.message


@cases(
    ("name", "words"),
    [
        ("notes.txt", "not a file of a log"),
        ("checkpoint.tmp", "is incomplete"),
        (index_name(3), "without a segment"),
    ],
)
def test_files_that_are_no_part_of_the_log_are_warnings(name, words):
    disk = closed()
    overwrite(disk, name, b"")

    (found,) = findings(disk)

    assert (found.severity, found.check) == ("warning", Check.FILES)
    assert words in found.message


def test_a_log_whose_start_nothing_explains_is_a_warning():
    disk = closed()
    disk.unlink(path_of(CHECKPOINT))
    disk.unlink(path_of(segment_name(0)))
    disk.unlink(path_of(index_name(0)))

    (found,) = findings(disk)

    assert (found.severity, found.offset) == ("warning", bases(disk)[0])
