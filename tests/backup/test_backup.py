"""Backups of storages in use are whole, and what was acknowledged before them is in them."""

import json
import shutil
import threading

import pyarrow as pa
import pytest

import headwater
from headwater.backup import backup, restore, verify
from headwater.backup.cut import STAGE_PREFIX, cut_of
from headwater.errors import ConflictError, CorruptFileError, MissingError
from tests.cli.commanding import Storage, ok
from tests.serving import serving

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
ROWS = 200


def filled(directory, **options):
    with headwater.open(directory) as storage:
        stock = storage.create_table("stock", SCHEMA, primary_key="id", options=options)
        clicks = storage.create_table("clicks", SCHEMA, options=options)
        stock.upsert([{"id": each, "name": "old"} for each in range(ROWS)])
        clicks.append([{"id": each, "name": "seen"} for each in range(ROWS)])
    return directory


def ids_in(directory, table):
    with headwater.open(directory) as storage:
        return sorted(storage.table(table).scan().to_arrow()["id"].to_pylist())


def test_a_backup_of_a_storage_at_rest_is_restored_as_it_was(tmp_path):
    data = filled(tmp_path / "data")
    made = backup(data, tmp_path / "backup")

    restore(tmp_path / "backup", tmp_path / "restored")

    assert verify(tmp_path / "backup").files == made.files
    assert ids_in(tmp_path / "restored", "stock") == list(range(ROWS))
    assert ids_in(tmp_path / "restored", "clicks") == list(range(ROWS))
    assert not list(data.glob(f"{STAGE_PREFIX}*"))


class Writer(threading.Thread):
    """Write rows one after the other, and remember which were acknowledged."""

    def __init__(self, address):
        super().__init__()
        self.address = address
        self.acknowledged = 0
        self.some = threading.Event()
        self.ended = threading.Event()

    def run(self):
        with headwater.connect(self.address) as client:
            log, by_key = client.table("log"), client.table("keyed")
            while not self.ended.is_set():
                row = {"id": self.acknowledged, "name": "x" * 100}
                log.append([row])
                by_key.upsert([row])
                self.acknowledged += 1
                if self.acknowledged >= 20:
                    self.some.set()


@pytest.fixture
def busy(tmp_path):
    """Serve a storage that is written to all the time; yield its directory and the writer."""
    with serving(tmp_path / "data") as server:
        with headwater.connect(server.address) as client:
            client.create_table("log", SCHEMA)
            client.create_table("keyed", SCHEMA, primary_key="id")
        writer = Writer(server.address)
        writer.start()
        writer.some.wait(60)
        yield server.directory, writer
        writer.ended.set()
        writer.join()


def test_a_backup_of_a_busy_server_holds_all_that_was_acknowledged_before_it(busy, tmp_path):
    data, writer = busy

    for number in range(3):
        before = writer.acknowledged
        backup(data, tmp_path / f"backup{number}")
        after = writer.acknowledged + 1
        restored = tmp_path / f"restored{number}"
        restore(tmp_path / f"backup{number}", restored)

        for table in ("log", "keyed"):
            found = ids_in(restored, table)
            assert found == list(range(len(found)))
            assert before <= len(found) <= after
        ok(Storage(str(restored))("audit", "--deep"))


@pytest.mark.parametrize("lake", ["iceberg", "paimon"])
def test_a_backup_brings_its_lake_along_and_opens_elsewhere(lake, tmp_path):
    options = {"table.datalake.enabled": "true", "table.datalake.format": lake}
    data = filled(tmp_path / "data", **options)
    Storage(str(data)).rows("tier", "--once", "--here")
    backup(data, tmp_path / "backup")
    shutil.rmtree(data)

    restore(tmp_path / "backup", tmp_path / "restored")

    assert ids_in(tmp_path / "restored", "stock") == list(range(ROWS))
    Storage(str(tmp_path / "restored")).rows("tier", "--once", "--here")
    ok(Storage(str(tmp_path / "restored"))("audit", "--deep"))


def test_a_backup_without_its_lake_leaves_it_out(tmp_path):
    data = filled(tmp_path / "data", **{"table.datalake.enabled": "true"})
    Storage(str(data)).rows("tier", "--once", "--here")

    made = backup(data, tmp_path / "backup", with_lake=False)

    assert not made.has_lake
    assert not (tmp_path / "backup" / "lake" / "iceberg").exists()


def test_any_byte_that_changed_is_noticed_before_anything_is_restored(tmp_path):
    backup(filled(tmp_path / "data"), tmp_path / "backup")
    files = sorted(each for each in (tmp_path / "backup").rglob("*") if each.is_file())
    for number, path in enumerate(files):
        # A new name each time: an interrupted restore would go on with what it has checked.
        restored = tmp_path / f"restored{number}"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if content else b"x")

        with pytest.raises(CorruptFileError, match="damaged"):
            verify(tmp_path / "backup")
        with pytest.raises(CorruptFileError, match="damaged"):
            restore(tmp_path / "backup", restored)

        assert not restored.exists()
        path.write_bytes(content)


def test_a_backup_that_was_interrupted_is_none(tmp_path):
    backup(filled(tmp_path / "data"), tmp_path / "backup")
    (tmp_path / "backup" / "backup.json").unlink()

    with pytest.raises(MissingError, match="not a complete backup"):
        restore(tmp_path / "backup", tmp_path / "restored")


def test_a_restore_goes_on_where_it_was_interrupted(tmp_path):
    made = backup(filled(tmp_path / "data"), tmp_path / "backup")
    done = made.files[0]
    partial = tmp_path / "restored.restoring" / done.path
    partial.parent.mkdir(parents=True)
    partial.write_bytes((tmp_path / "backup" / done.path).read_bytes())
    seen = []

    restore(tmp_path / "backup", tmp_path / "restored", progress=lambda *at: seen.append(at))

    assert seen[-1] == (made.byte_count - done.size,) * 2
    assert ids_in(tmp_path / "restored", "clicks") == list(range(ROWS))


def test_nothing_that_is_there_is_overwritten(tmp_path):
    data = filled(tmp_path / "data")
    backup(data, tmp_path / "backup")

    with pytest.raises(ConflictError, match="not empty"):
        backup(data, tmp_path / "backup")
    with pytest.raises(ConflictError, match="not empty"):
        restore(tmp_path / "backup", data)
    with pytest.raises(ConflictError, match="inside"):
        backup(data, data / "backup")


def test_links_that_a_killed_backup_left_are_cleared_away_and_those_of_others_are_not(tmp_path):
    data = filled(tmp_path / "data")
    left = data / f"{STAGE_PREFIX}left"
    left.mkdir()

    with cut_of(data, with_lake=True) as first:
        backup(data, tmp_path / "backup")

        assert not left.exists()
        assert (first.stage / "catalog.sqlite").exists()


def test_the_commands_say_what_they_did_and_what_to_do(tmp_path):
    data = filled(tmp_path / "data")
    storage, place = Storage(str(data)), str(tmp_path / "backup")

    assert "Backed up" in ok(storage("backup", place))
    assert "is complete" in ok(storage("restore", place, "--verify-only"))
    assert "headwater serve" in ok(storage("restore", place, str(tmp_path / "restored")))
    assert "on that machine" in Storage("127.0.0.1:9")("backup", place).stderr
    assert json.loads((tmp_path / "backup" / "backup.json").read_text().splitlines()[0])
