"""States that are whole give nothing; each kind of damage to their files is found."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headwater.audit.report import Check
from headwater.kv.store import Snapshot, decode_snapshot, encode_snapshot
from headwater.log.segment import segment_names
from tests.audit.files.storages import errors, fill_keyed, findings, rows, storage
from tests.server.support import flip_bit

BUCKET = Path("log", "1", "0")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return a directory with one keyed table that has two snapshots and a log since."""
    directory = tmp_path_factory.mktemp("keyed") / "data"
    asyncio.run(fill_keyed(directory))
    return directory


@pytest.fixture
def directory(made, tmp_path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(made, tmp_path / "data"))


def files(directory: Path, kind: str) -> list[Path]:
    return sorted((directory / BUCKET / "kv").glob(f"{kind}-*"))


def read(path: Path) -> Snapshot:
    return decode_snapshot(path.read_bytes())


def write(path: Path, snapshot: Snapshot) -> None:
    path.write_bytes(encode_snapshot(snapshot))


def segments(directory: Path) -> list[Path]:
    names = segment_names(sorted(path.name for path in (directory / BUCKET).iterdir()))
    return [directory / BUCKET / str(name) for name in names]


def test_a_state_gives_nothing(directory):
    assert findings(directory) == []


def test_a_flipped_bit_in_a_snapshot_is_an_error(directory):
    flip_bit(files(directory, "snapshot")[-1], 100)

    (found,) = errors(directory)

    assert (found.check, found.table) == (Check.CHECKSUMS, "fluss.users")
    assert "The next start sets it aside" in found.remedy


def test_a_flipped_bit_in_a_segment_is_an_error(directory):
    flip_bit(files(directory, "segment")[-1], 60)

    (found,) = errors(directory)

    assert "wrong checksum" in found.message


def test_a_missing_segment_is_an_error(directory):
    files(directory, "segment")[0].unlink()

    (found,) = errors(directory)

    assert "is missing" in found.message


def test_a_segment_that_was_cut_is_an_error(directory):
    last = files(directory, "segment")[-1]
    last.write_bytes(last.read_bytes()[:-5])

    (found,) = errors(directory)

    assert "bytes instead of" in found.message


def test_what_no_snapshot_names_is_a_warning(directory):
    last = files(directory, "segment")[-1]
    last.with_name("segment-0000000000000098").write_bytes(last.read_bytes())
    files(directory, "snapshot")[-1].rename(last.with_name("snapshot-0000000000000099"))
    last.with_name("snapshot-0000000000000100.tmp").write_bytes(b"")
    last.with_name("notes.txt").write_bytes(b"")
    last.with_name("segment-0000000000000097.damaged").write_bytes(b"")

    found = findings(directory)

    assert {each.severity for each in found} == {"warning"}
    words = ("named by no current snapshot", "not a file of a state", "set aside", "is incomplete")
    assert [any(each in found.message for found in found) for each in words] == [True] * 4
    assert len(found) == len(words)


def test_rows_that_were_written_out_before_any_snapshot_names_them_are_nothing_to_tell(directory):
    last = files(directory, "segment")[-1]
    last.with_name("segment-0000000000000099").write_bytes(last.read_bytes())

    assert findings(directory) == []


def test_an_older_snapshot_that_was_to_be_removed_is_a_warning(directory):
    newest = files(directory, "snapshot")[-1]
    oldest = replace(read(newest), offset=1)
    for serial in (90, 91, 92):
        write(newest.with_name(f"snapshot-{serial:016d}"), read(newest))
    write(newest.with_name("snapshot-0000000000000001"), oldest)

    assert {each.severity for each in findings(directory, deep=False)} == {"warning"}


def test_a_snapshot_ahead_of_its_log_is_an_error(directory):
    newest = files(directory, "snapshot")[-1]
    write(newest, replace(read(newest), offset=10_000))

    (found,) = errors(directory)

    assert found.check is Check.STATE
    assert "durable changes are lost" in found.message


def test_rows_that_are_found_by_other_keys_are_an_error(directory):
    newest = files(directory, "snapshot")[-1]
    held = read(newest)
    write(newest, replace(held, locations=np.roll(held.locations, 1)))

    (found,) = errors(directory)

    assert "another key than their own" in found.message
    assert "--rebuild-state" in found.remedy


@pytest.mark.parametrize("off", [1 << 27, 1 << 29, 3])
def test_rows_outside_of_their_segments_are_an_error(directory, off):
    newest = files(directory, "snapshot")[-1]
    held = read(newest)
    write(newest, replace(held, locations=held.locations + off))

    (found,) = errors(directory)

    assert found.check is Check.STATE


def test_a_row_that_the_log_has_and_the_state_lacks_is_an_error(directory):
    newest = files(directory, "snapshot")[-1]
    held = read(newest)
    write(newest, replace(held, hashes=held.hashes[1:], locations=held.locations[1:]))

    (found,) = errors(directory)

    assert "it lacks 1 rows that the log has" in found.message


def test_a_row_of_another_time_is_an_error(directory):
    older, newest = files(directory, "snapshot")
    write(newest, replace(read(older), offset=read(newest).offset))

    assert [each.check for each in errors(directory)] == [Check.STATE]


async def test_a_state_is_compared_with_the_one_before_where_the_log_begins_later(directory):
    for path in segments(directory)[:1]:
        path.unlink()
    (directory / BUCKET / "checkpoint").unlink()
    newest = files(directory, "snapshot")[-1]
    held = read(newest)
    write(newest, replace(held, hashes=held.hashes[1:], locations=held.locations[1:]))

    (found,) = [each for each in errors(directory) if each.check is Check.STATE]

    assert "1 rows" in found.message


async def test_rows_that_nothing_can_rebuild_are_an_error(directory):
    for path in segments(directory)[:-1]:
        path.unlink()
    (directory / BUCKET / "checkpoint").unlink()
    for path in files(directory, "snapshot"):
        flip_bit(path, 100)

    found = [each for each in errors(directory) if each.check is Check.STATE]

    assert "The rows cannot be rebuilt" in found[0].message


async def test_a_hole_behind_the_snapshot_is_an_error_with_a_cure(directory):
    async with storage(directory) as (client, _):
        table = await client.table("users")
        for number in range(3):
            await table.upsert(rows(number, number + 1))
    last = segments(directory)[-1]
    flip_bit(last, last.stat().st_size - 300)

    found = [each for each in errors(directory) if each.check is Check.STATE]

    assert f"--cut-at {found[0].offset}" in found[0].remedy
