"""What loads write, share, extend and remove, and that nothing of it reaches the lake."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

import headwater
from headwater.doors.iceberg.held import LoadPosition, TailLimits
from headwater.doors.iceberg.loads import HotTables
from headwater.doors.iceberg.origins import OriginPlaces
from headwater.doors.iceberg.tails import PIECES_FEW, TailPiece, extension, kept_pieces
from headwater.errors import UnsupportedError
from headwater.lake.iceberg.catalog import load_table, open_catalog
from headwater.lake.iceberg.served import MARKER, TAILS_FOLDER
from headwater.lake.lakes import Lakes, lake_spec
from headwater.model import OffsetRange, TablePath
from headwater.runtime.clock import SystemClock
from tests.doors.iceberg.opening import LAKE, opened_door, opened_shop, tier_all

LEASE_S = 100.0
PATH = TablePath("fluss", "t")


class MovedClock(SystemClock):
    """The clock of the machine, which a test may move on."""

    moved_s = 0.0

    def now_ms(self):
        return super().now_ms() + int(1000 * self.moved_s)

    def monotonic(self):
        return super().monotonic() + self.moved_s


class Loads:
    """Loads of one table by a door whose clock the test has in hand."""

    def __init__(self, hw, **limits):
        self.hw = hw
        self.clock = MovedClock()
        chosen = TailLimits(**{"fresh_within_s": 0.0, "lease_s": LEASE_S, **limits})
        self.tables = HotTables(chosen, self.clock, OriginPlaces())

    def __call__(self, **at):
        return self.tables.load(self.hw, PATH, at=LoadPosition(**at))

    def wait(self, seconds):
        self.clock.moved_s += seconds
        self.tables.upkeep()


def metadata_of(answer):
    return json.loads(answer.body)["metadata"]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def hw(place):
    with headwater.open(place, listen=True) as opened:
        yield opened


def tails(place, pattern="*"):
    """Return the files of doors, without the markers of their folders."""
    found = place.rglob(f"{TAILS_FOLDER}/**/{pattern}")
    return {each for each in found if each.is_file() and each.name != MARKER}


def data_files(place):
    return tails(place, "*.parquet")


def log_table(hw, **traits):
    columns = {"id": "BIGINT", "city": "STRING"}
    return hw.create_table(
        "t", columns, options=LAKE, **{"bucket_by": "id", "buckets": 1, **traits}
    )


def keyed_table(hw, buckets=1):
    columns = {"id": "BIGINT", "city": "STRING"}
    return hw.create_table("t", columns, options=LAKE, primary_key="id", buckets=buckets)


def lake_metadata(hw):
    info = hw.table(PATH).info
    return load_table(open_catalog(Lakes().config_of(info)), PATH)


def test_an_unchanged_tail_writes_nothing(hw, place):
    table, load = log_table(hw), Loads(hw)
    table.append([(1, "Ulm")])
    first = load()
    before = {each: each.stat().st_mtime_ns for each in tails(place)}

    again = load()

    assert (again.etag, again.body) == (first.etag, first.body)
    assert {each: each.stat().st_mtime_ns for each in tails(place)} == before


def test_new_rows_of_a_log_come_in_a_further_file(hw, place):
    table, load = log_table(hw), Loads(hw)
    table.append([(at, "Ulm") for at in range(1000)])
    load()
    before = {each: each.stat().st_mtime_ns for each in data_files(place)}
    table.append([(1, "Bonn")])

    load()

    after = {each: each.stat().st_mtime_ns for each in data_files(place)}
    assert len(after) == 2
    assert before.items() <= after.items()


def test_many_small_files_are_put_together(hw):
    table, load = log_table(hw), Loads(hw)
    for at in range(4 * PIECES_FEW):
        table.append([(at, "Ulm")])
        newest = metadata_of(load())

    summary = newest["snapshots"][-1]["summary"]
    assert int(summary["added-data-files"]) <= PIECES_FEW
    assert int(summary["total-records"]) == 4 * PIECES_FEW


def piece(start, end):
    return TailPiece(files=(), offsets=OffsetRange(start, end))


def test_pieces_are_kept_from_where_the_lake_ends():
    held = [piece(0, 10), piece(10, 20), piece(20, 25)]

    assert kept_pieces(held, OffsetRange(10, 30)) == held[1:]
    assert kept_pieces(held, OffsetRange(0, 22)) == held[:2]
    assert kept_pieces(held, OffsetRange(5, 30)) == []
    assert extension(held, OffsetRange(10, 30)) == (held[1:], OffsetRange(25, 30))
    assert extension(held, OffsetRange(10, 25)) == (held[1:], OffsetRange(25, 25))


def test_large_pieces_are_not_written_again_with_small_ones():
    small = [piece(1000 + at, 1001 + at) for at in range(PIECES_FEW)]

    kept, missing = extension([piece(0, 1000), *small], OffsetRange(0, 1001 + PIECES_FEW))

    assert kept == [piece(0, 1000)]
    assert missing == OffsetRange(1000, 1001 + PIECES_FEW)


def test_buckets_by_key_without_changes_keep_their_files(hw, place):
    table, load = keyed_table(hw, buckets=3), Loads(hw)
    table.upsert([(at, "Ulm") for at in range(60)])
    hw.run(tier_all)
    table.upsert([(at, "Bonn") for at in range(60)])
    load()
    before = data_files(place)
    table.upsert([(1, "Kiel")])

    load()

    new = data_files(place) - before
    assert len(before) == 6
    assert len(new) == 2


def test_the_same_position_has_the_same_snapshot_in_every_door(hw):
    table = keyed_table(hw)
    table.upsert([(1, "Ulm")])

    numbers = {metadata_of(Loads(hw)())["current-snapshot-id"] for _ in range(2)}

    assert len(numbers) == 1


def test_clients_that_load_at_once_share_one_tail(hw):
    table, load = keyed_table(hw), Loads(hw, fresh_within_s=60.0)
    table.upsert([(at, "Ulm") for at in range(1000)])

    with ThreadPoolExecutor(50) as threads:
        found = list(threads.map(lambda _: load(), range(50)))

    assert len({each.etag for each in found}) == 1
    assert load.tables.costs.results == {"written": 1, "shared": 49, "failed": 0}


def test_a_load_never_shows_less_than_what_was_written_before_it_began(hw):
    table, load = log_table(hw), Loads(hw)

    def written_and_loaded(at):
        table.append([(at, "Ulm")])
        summary = metadata_of(load())["snapshots"][-1]["summary"]
        return int(summary["total-records"])

    counts = [written_and_loaded(at) for at in range(10)]

    assert counts == list(range(1, 11))


def test_files_go_when_their_lease_is_over(hw, place):
    table, load = log_table(hw), Loads(hw)
    table.append([(1, "Ulm")])
    load()
    old = tails(place, "*.metadata.json")
    load.wait(LEASE_S / 2)
    table.append([(2, "Ulm")])
    load()

    load.wait(LEASE_S * 0.6)

    assert not old & tails(place)
    assert len(tails(place, "*.metadata.json")) == 1
    assert len(data_files(place)) == 2
    load.wait(LEASE_S * 5)
    assert tails(place) == set()
    assert metadata_of(load())["snapshots"][-1]["summary"]["total-records"] == "2"


def test_what_tiering_took_over_goes_with_its_lease(hw, place):
    table, load = log_table(hw), Loads(hw)
    table.append([(1, "Ulm")])
    load()
    hw.run(tier_all)
    table.append([(2, "Ulm")])
    hw.run(tier_all)
    load()
    lake = {path for path in place.rglob("lake/**/*.parquet") if TAILS_FOLDER not in str(path)}

    load.wait(LEASE_S + 1)

    assert data_files(place) == set()
    assert all(path.exists() for path in lake)


def test_a_folder_that_somebody_removed_is_written_again(hw, place):
    table, load = log_table(hw), Loads(hw)
    table.append([(1, "Ulm")])
    first = load()
    for path in place.rglob(f"{TAILS_FOLDER}/**/*"):
        if path.is_file():
            path.unlink()

    again = load()

    assert again.etag != first.etag
    assert len(data_files(place)) == 1


def test_a_door_that_slept_longer_than_its_lease_begins_anew(hw):
    table, load = log_table(hw), Loads(hw)
    table.append([(1, "Ulm")])
    first = load()
    load.clock.moved_s += LEASE_S * 2

    assert load().etag != first.etag


def test_left_over_files_go_when_their_lease_is_over(hw, place):
    table = log_table(hw)
    table.append([(1, "Ulm")])
    hw.run(tier_all)
    table.append([(2, "Ulm")])
    Loads(hw)()
    (left,) = data_files(place)
    soon, later = Loads(hw), Loads(hw)

    soon()
    assert left.exists()
    later.clock.moved_s += LEASE_S + 10
    later()

    assert not left.exists()


def test_a_door_looks_for_left_over_files_when_it_starts(hw, place):
    table = log_table(hw)
    table.append([(1, "Ulm")])
    Loads(hw)()
    hw.run(tier_all)
    table.append([(2, "Ulm")])
    Loads(hw)()
    left = tails(place)
    long_ago = SystemClock().now_ms() / 1000 - LEASE_S - 10
    for path in place.rglob(f"{TAILS_FOLDER}/**/*"):
        os.utime(path, (long_ago, long_ago))
    clock = SystemClock()
    deadline = clock.monotonic() + 60

    with opened_door((hw.address,)):
        while tails(place) and clock.monotonic() < deadline:
            pass

    assert left
    assert tails(place) == set()


def test_clean_removes_left_over_files_and_no_others(hw, place):
    table = log_table(hw)
    table.append([(1, "Ulm")])
    hw.run(tier_all)
    table.append([(2, "Ulm")])
    Loads(hw)()
    (left,) = data_files(place)
    info = hw.table(PATH).info
    keeper = Lakes().of(info).keeper(lake_spec(info))

    keeper.remove_orphans(older_than_ms=SystemClock().now_ms() + 10**9)
    assert left.exists()
    assert keeper.inventory().orphans == ()
    long_ago = SystemClock().now_ms() / 1000 - LEASE_S - 10
    for path in place.rglob(f"{TAILS_FOLDER}/**/*"):
        os.utime(path, (long_ago, long_ago))
    cleaned = keeper.remove_orphans(older_than_ms=0)

    assert not left.exists()
    assert cleaned.data_files == 1


def test_nothing_of_a_load_is_committed(hw):
    table, load = keyed_table(hw), Loads(hw)
    table.upsert([(at, "Ulm") for at in range(10)])
    hw.run(tier_all)
    before = lake_metadata(hw)
    table.upsert([(at, "Bonn") for at in range(5, 15)])

    load()

    after = lake_metadata(hw)
    assert after.metadata_location == before.metadata_location
    assert after.scan().count() == 10


def test_a_tail_that_is_too_long_is_refused_with_what_to_do(hw, place):
    table, load = log_table(hw), Loads(hw, rows_max=100)
    table.append([(at, "Ulm") for at in range(60)])
    hw.run(tier_all)
    table.append([(at, "Ulm") for at in range(101)])

    with pytest.raises(UnsupportedError, match="101 rows, more than the 100") as refusal:
        load()

    assert "behind" in str(refusal.value)
    assert data_files(place) == set()
    assert metadata_of(load(mode="lake"))["snapshots"][-1]["summary"]["total-records"] == "60"


def test_a_state_that_is_too_long_is_noticed_while_it_is_written(hw, place):
    table, load = keyed_table(hw), Loads(hw, rows_max=100)
    table.upsert([(at, "Ulm") for at in range(101)])

    with pytest.raises(UnsupportedError, match="nothing of the table is in an Iceberg lake"):
        load()

    assert data_files(place) == set()


def test_a_damaged_lake_is_an_error_in_the_specified_form(tmp_path):
    with opened_shop(tmp_path) as shop:
        table = log_table(shop.hw)
        table.append([(1, "Ulm")])
        shop.tier()
        snapshot = lake_metadata(shop.hw).current_snapshot()
        Path(urlsplit(snapshot.manifest_list).path).write_bytes(b"no file list")
        table.append([(2, "Ulm")])

        answer = shop.door.ask("/v1/namespaces/fluss/tables/t")

        assert answer.status >= 400
        assert answer.body["error"]["message"]
        assert "the door failed" not in answer.body["error"]["message"].lower()


def test_an_etag_spares_the_answer(tmp_path):
    with opened_shop(tmp_path) as shop:
        table = log_table(shop.hw)
        table.append([(1, "Ulm")])
        url = "/v1/namespaces/fluss/tables/t"
        first = shop.door.ask(url)
        tag = {"If-None-Match": first.headers["etag"]}

        again = shop.door.ask(url, headers=tag)
        table.append([(2, "Ulm")])
        newer = shop.door.ask(url, headers=tag)

        assert (again.status, again.body) == (304, {})
        assert newer.status == 200


def test_writes_by_a_client_are_refused(tmp_path):
    with opened_shop(tmp_path) as shop:
        log_table(shop.hw).append([(1, "Ulm")])
        table = shop.load("t")

        with pytest.raises(NotImplementedError, match="not support"):
            table.append(table.scan().to_arrow())

        assert shop.loaded("t").scan().count() == 1
        assert b"headwater_door_loads_total" in shop.door.raw("/metrics")


# Doors that are killed.


@contextmanager
def door_process(address, *options):
    words = ["doors", "--at", address, "--iceberg-port", "0", *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater", *words], stderr=subprocess.PIPE, text=True
    )
    try:
        found = next(line for line in process.stderr if "address=" in line)
        yield process, found.rpartition("address=")[2].strip()
    finally:
        process.kill()
        process.communicate()


def test_a_door_that_is_killed_in_the_middle_of_a_load_leaves_the_lake_as_it_was(hw, place):
    table = keyed_table(hw)
    table.upsert([(at, "Ulm") for at in range(1000)])
    hw.run(tier_all)
    before = lake_metadata(hw)
    table.upsert([(at, "Bonn") for at in range(50_000)])
    clock = SystemClock()
    with door_process(hw.address) as (process, address), ThreadPoolExecutor(1) as threads:
        loading = threads.submit(asked, f"{address}/v1/namespaces/fluss/tables/t")
        deadline = clock.monotonic() + 60
        while not tails(place) and clock.monotonic() < deadline:
            pass
        process.send_signal(signal.SIGKILL)
        assert loading.result() is None

    assert lake_metadata(hw).metadata_location == before.metadata_location
    left, later = tails(place), Loads(hw)
    later.clock.moved_s += 3600
    later()
    assert left
    assert not left & tails(place)
    assert hw.table(PATH).scan().to_arrow().num_rows == 50_000


def asked(url):
    """Return the answer to a request; None if its door was killed."""
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.read()
    except OSError:
        return None
