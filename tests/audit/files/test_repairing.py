"""Each cure works on really damaged directories, and loses nothing before the cut."""

import asyncio
import shutil
from pathlib import Path

import pytest

from headwater.audit.files.repair import Begin, Cure, Cut, Rebuild, prepared
from headwater.audit.report import Severity
from headwater.errors import DirectoryInUseError, HeadwaterError, MissingError, RequestError
from headwater.log.segment import segment_names
from headwater.rows.log_batch import HEADER_BYTES, iterate
from headwater.server.catalog.lock import DirectoryLock
from tests.audit.files.storages import errors, fill_keyed, fill_log, findings, rows, storage
from tests.audit.files.test_directories import contents, tiered
from tests.server.support import flip_bit

BUCKET = Path("log", "1", "0")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    """Return directories with one table each, made once."""
    place = tmp_path_factory.mktemp("made")
    asyncio.run(fill_log(place / "events"))
    asyncio.run(fill_keyed(place / "users"))
    asyncio.run(fill_keyed(place / "unsaved" / "users", saves=False))
    return {
        "events": place / "events",
        "users": place / "users",
        "unsaved": place / "unsaved/users",
    }


@pytest.fixture
def events(made, tmp_path) -> Path:
    """Return a directory with a log table of 12 batches of 10 rows."""
    return Path(shutil.copytree(made["events"], tmp_path / "events"))


@pytest.fixture
def users(made, tmp_path) -> Path:
    """Return a directory with a keyed table, two snapshots and a log since."""
    return Path(shutil.copytree(made["users"], tmp_path / "users"))


@pytest.fixture
def unsaved(made, tmp_path) -> Path:
    """Return a directory with a keyed table that has no snapshot."""
    return Path(shutil.copytree(made["unsaved"], tmp_path / "unsaved"))


def repair(directory: Path, cure: Cure, *, table: str | None = None) -> tuple[str, ...]:
    """Mend bucket 0 and return the steps in words."""
    name = table or ("fluss.events" if directory.name == "events" else "fluss.users")
    with prepared(directory, name, bucket=0, partition=None, cure=cure) as found:
        found.carry_out()
        return tuple(map(str, found.plan.steps))


def segments(directory: Path) -> list[Path]:
    names = segment_names(path.name for path in (directory / BUCKET).iterdir())
    return [directory / BUCKET / str(name) for name in names]


def first_offset(path: Path) -> int:
    return int(path.name.split(".")[0])


def batches(path: Path) -> dict[int, int]:
    """Return the position of each batch by its offset."""
    return {header.base_offset: at for header, at in iterate(path.read_bytes())}


def damage(path: Path, offset: int) -> None:
    """Flip a bit in the body of the batch at an offset."""
    flip_bit(path, batches(path)[offset] + HEADER_BYTES + 3)


async def ids(directory: Path) -> list[int]:
    """Return the ids of all rows of a log table."""
    async with storage(directory) as (client, _):
        table = await client.table("events")
        return sorted((await table.scan().to_arrow()).column("id").to_pylist())


async def keyed_rows(directory: Path, *, deadline_s: float = 60) -> dict[int, str]:
    """Return all rows of a keyed table."""
    async with storage(directory, deadline_s=deadline_s) as (client, _):
        table = await client.table("users")
        found = await table.scan().to_arrow()
        return dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


async def appended(directory: Path) -> int:
    """Append a row and return the offset that it got."""
    async with storage(directory) as (_, server):
        ((_, tablet),) = server.tablets.all_open()
        end = tablet.log.end_offset
    async with storage(directory) as (client, _):
        name = "events" if directory.name == "events" else "users"
        table = await client.table(name)
        await (table.append if name == "events" else table.upsert)(rows(9_000, 9_001))
    async with storage(directory) as (_, server):
        ((_, tablet),) = server.tablets.all_open()
        assert tablet.log.end_offset == end + 1
    return end


def warnings_only(directory: Path) -> bool:
    return all(each.severity is Severity.WARNING for each in findings(directory))


async def test_a_log_with_a_hole_is_cut_and_serves_all_before_it(events):
    last = segments(events)[-1]
    offset = sorted(batches(last))[2]
    damage(last, offset)

    repair(events, Cut(offset))

    assert findings(events) == []
    assert await ids(events) == list(range(offset))
    assert await appended(events) == offset


async def test_a_log_is_cut_in_a_sealed_segment(events):
    first = segments(events)[0]
    offset = sorted(batches(first))[1]

    repair(events, Cut(offset))

    assert findings(events) == []
    assert await ids(events) == list(range(offset))
    assert await appended(events) == offset


async def test_a_log_is_cut_between_two_segments(events):
    offset = first_offset(segments(events)[1])

    repair(events, Cut(offset))

    assert findings(events) == []
    assert await ids(events) == list(range(offset))
    assert await appended(events) == offset


async def test_a_log_is_cut_at_its_start(events):
    repair(events, Cut(0))

    assert findings(events) == []
    assert await ids(events) == []
    assert await appended(events) == 0


async def test_a_segment_that_was_set_aside_is_cut_and_counts_again(events):
    last = segments(events)[-1]
    offset = sorted(batches(last))[3]
    damage(last, offset)
    (events / BUCKET / "checkpoint").unlink()
    await ids_before(events)
    assert last.with_name(f"{last.name}.damaged").exists()

    repair(events, Cut(offset))

    assert warnings_only(events)
    assert last.exists()
    assert await ids(events) == list(range(offset))
    assert await appended(events) == offset


async def ids_before(directory: Path) -> None:
    """Open and close a directory, so that recovery does what it does."""
    async with storage(directory):
        pass


async def test_no_byte_is_deleted_by_a_cut(events):
    before = {path.name: path.read_bytes() for path in segments(events)}
    offset = sorted(batches(segments(events)[0]))[1]

    repair(events, Cut(offset))

    for name, data in before.items():
        kept = events / BUCKET / name
        aside = (events / BUCKET / f"{name}.cut-1").read_bytes()
        assert (kept.read_bytes() if kept.exists() else b"") + aside == data


async def test_a_log_is_cut_twice(events):
    repair(events, Cut(60))
    repair(events, Cut(30))

    assert findings(events) == []
    assert await ids(events) == list(range(30))


def rows_after(directory: Path, offset: int) -> dict[int, str]:
    """Return the rows of the keyed table as they were when its log ended at an offset."""
    count = sum(at < offset for path in segments(directory) for at in batches(path))
    held: dict[int, str] = {}
    for operation in range(count):
        first = operation // 2 * 5
        if operation % 2:
            del held[first + 1]
        else:
            held |= {each["id"]: each["name"] for each in rows(first, first + 10)}
    return held


async def test_a_bucket_that_lost_its_rows_to_a_hole_opens_after_a_cut(unsaved):
    last = segments(unsaved)[-1]
    offset = sorted(batches(last))[-2]
    expected = rows_after(unsaved, offset)
    damage(last, offset)
    with pytest.raises(HeadwaterError, match="cannot be rebuilt"):
        await keyed_rows(unsaved, deadline_s=0.2)

    repair(unsaved, Cut(offset))

    assert warnings_only(unsaved)
    assert await keyed_rows(unsaved) == expected
    assert await appended(unsaved) == offset


@pytest.mark.parametrize("back", [1, 2, 5])
async def test_snapshots_ahead_of_a_cut_are_set_aside(users, back):
    async with storage(users) as (_, server):
        ((_, keyed),) = server.tablets.keyed.all_open()
        newest = keyed.upkeep._saved_offset
    offset = sorted(at for path in segments(users) for at in batches(path) if at < newest)[-back]
    expected = rows_after(users, offset)

    steps = repair(users, Cut(offset))

    assert any("snapshot-" in step and ".cut-1" in step for step in steps)
    assert warnings_only(users)
    assert await keyed_rows(users) == expected
    assert await appended(users) == offset
    assert findings(users) == []


async def test_a_state_is_built_anew(users):
    before = await keyed_rows(users)
    for path in (users / BUCKET / "kv").glob("segment-*"):
        flip_bit(path, 50)

    repair(users, Rebuild.STATE)

    assert findings(users) == []
    assert await keyed_rows(users) == before
    assert (users / BUCKET / "kv.aside-1").is_dir()


@pytest.mark.parametrize("victim", ["checkpoint", "00000000000000000000.index"])
async def test_an_index_or_checkpoint_is_built_anew(events, victim):
    flip_bit(events / BUCKET / victim, 12)
    assert errors(events)

    repair(events, Rebuild.INDEX)

    assert findings(events) == []
    assert await ids(events) == list(range(120))
    assert findings(events) == []


async def test_a_log_that_begins_later_keeps_its_start(events):
    async with storage(events) as (_, server):
        ((_, tablet),) = server.tablets.all_open()
        start = tablet.log.delete_before(first_offset(segments(events)[-1]))

    repair(events, Rebuild.INDEX)

    assert findings(events) == []
    async with storage(events) as (_, server):
        ((_, tablet),) = server.tablets.all_open()
        assert (tablet.log.start_offset, tablet.log.end_offset) == (start, 120)
    assert start > 0


@pytest.mark.parametrize(
    ("offset", "words"), [(35, "at 30 or at 40"), (120, "nothing to cut"), (500, "cannot be cut")]
)
def test_offsets_that_a_log_cannot_be_cut_at_are_refused(events, offset, words):
    before = contents(events)

    with pytest.raises(RequestError, match=words):
        repair(events, Cut(offset))

    assert contents(events) == before


def test_an_offset_inside_of_a_hole_is_refused(events):
    last = segments(events)[-1]
    start, *_, inside = sorted(batches(last))[1:4]
    damage(last, start)

    with pytest.raises(RequestError, match=f"--cut-at {start}"):
        repair(events, Cut(inside))


async def test_a_cut_below_what_the_lake_holds_is_refused(events):
    await tiered(events, 60)

    with pytest.raises(RequestError, match="Cut the log at 60 or later"):
        repair(events, Cut(30))
    repair(events, Cut(60))

    assert findings(events) == []


def damaged_first(directory: Path) -> tuple[int, int]:
    """Damage the second batch of the first segment, and return the hole that this leaves."""
    first, second, *_ = segments(directory)
    start = sorted(batches(first))[1]
    damage(first, start)
    return start, first_offset(second)


async def test_a_log_begins_behind_a_hole_that_the_lake_holds(events):
    start, end = damaged_first(events)
    await tiered(events, end)
    assert [f"--begin-at {end}" in each.remedy for each in errors(events)] == [True]
    with pytest.raises(RequestError, match=f"--begin-at {end}"):
        repair(events, Cut(start))

    repair(events, Begin(end))

    assert errors(events) == []
    assert await ids(events) == list(range(end, 120))
    assert await appended(events) == 120


async def test_a_log_of_which_the_lake_holds_all_begins_at_its_end(events):
    await tiered(events, 120)
    for path in segments(events):
        damage(path, first_offset(path))
    before = sorted(path.read_bytes() for path in segments(events))

    repair(events, Begin(120))

    assert errors(events) == []
    aside = (events / BUCKET).glob("*.log*.aside-1")
    assert sorted(path.read_bytes() for path in aside) == before
    assert await appended(events) == 120


async def test_a_log_goes_on_empty_where_the_lake_ends_inside_of_a_hole(events):
    start, end = damaged_first(events)
    await tiered(events, start + 5)
    with pytest.raises(RequestError, match=f"--cut-at {start + 5}"):
        repair(events, Begin(end - 1))
    assert f"--cut-at {start + 5}" in errors(events)[0].remedy

    repair(events, Cut(start + 5))

    assert errors(events) == []
    assert await ids(events) == []
    assert await appended(events) == start + 5


@pytest.mark.parametrize(("offset", "words"), [(0, "cannot begin at 0"), (60, "up to offset 30")])
async def test_offsets_that_a_log_cannot_begin_at_are_refused(events, offset, words):
    await tiered(events, 30)
    before = contents(events)

    with pytest.raises(RequestError, match=words):
        repair(events, Begin(offset))

    assert contents(events) == before


async def test_rows_by_key_need_a_snapshot_behind_the_hole(users, unsaved):
    expected = await keyed_rows(users)
    _, end = damaged_first(users)
    await tiered(users, end)
    damaged_first(unsaved)
    await tiered(unsaved, end)

    repair(users, Begin(end))

    assert warnings_only(users)
    assert await keyed_rows(users) == expected
    with pytest.raises(RequestError, match="could not be rebuilt"):
        repair(unsaved, Begin(end))


async def trimmed(directory: Path) -> int:
    """Let retention remove the first segments, and return where the log begins."""
    async with storage(directory) as (_, server):
        ((bucket, keyed),) = server.tablets.keyed.all_open()
        (tablet,) = [each for at, each in server.tablets.all_open() if at == bucket]
        return tablet.log.delete_before(keyed.upkeep.needed_from)


async def test_cures_that_need_the_whole_log_are_refused_where_it_begins_later(users):
    start = await trimmed(users)

    assert start > 0
    with pytest.raises(RequestError, match="begins at"):
        repair(users, Rebuild.STATE)
    with pytest.raises(RequestError, match="could not be rebuilt"):
        repair(users, Cut(start))


def test_a_state_is_not_built_from_a_log_with_a_hole(unsaved):
    damage(segments(unsaved)[0], 0)

    with pytest.raises(RequestError, match="--cut-at 0"):
        repair(unsaved, Rebuild.STATE)


def test_a_log_table_has_no_state_to_build(events):
    with pytest.raises(RequestError, match="no primary key"):
        repair(events, Rebuild.STATE)


def test_an_index_that_alone_knows_of_lost_rows_is_kept(events):
    last = segments(events)[-1]
    last.write_bytes(last.read_bytes()[: batches(last)[110]])

    with pytest.raises(RequestError, match="--cut-at 110"):
        repair(events, Rebuild.INDEX)
    repair(events, Cut(110))

    assert findings(events) == []


def test_a_directory_in_use_is_left_alone(events):
    lock = DirectoryLock.take(events)
    try:
        with pytest.raises(DirectoryInUseError):
            repair(events, Cut(30))
    finally:
        lock.release()


@pytest.mark.parametrize(
    ("table", "bucket", "partition", "kind"),
    [
        ("fluss.other", 0, None, MissingError),
        ("fluss.events", 1, None, MissingError),
        ("fluss.events", 0, "x", RequestError),
    ],
)
def test_buckets_that_are_not_there_are_refused(events, table, bucket, partition, kind):
    with (
        pytest.raises(kind),
        prepared(events, table, bucket=bucket, partition=partition, cure=Cut(30)),
    ):
        pass


async def test_a_bucket_of_a_partition_is_cut(tmp_path):
    days = {"id": "BIGINT", "name": "STRING", "day": "STRING"}
    async with storage(tmp_path) as (client, _):
        table = await client.create_table("days", days, partition_by="day", buckets=1)
        for number in range(4):
            await table.append([{**each, "day": "d1"} for each in rows(number, number + 1)])
            await table.append([{**each, "day": "d2"} for each in rows(number, number + 1)])

    with prepared(tmp_path, "fluss.days", bucket=0, partition="d2", cure=Cut(1)) as found:
        found.carry_out()

    assert findings(tmp_path) == []
    async with storage(tmp_path) as (client, _):
        left = await (await client.table("days")).scan().to_arrow()
    assert sorted(left["day"].to_pylist()) == ["d1"] * 4 + ["d2"]
