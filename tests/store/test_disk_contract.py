"""What every disk promises."""

import pytest

from headwater.store.local import LocalDisk
from headwater.store.memory import MemoryDisk


@pytest.fixture(params=["local", "memory"])
def disk(request, tmp_path):
    disk = LocalDisk(tmp_path) if request.param == "local" else MemoryDisk()
    disk.make_directories("1/0")
    return disk


def whole(disk, path):
    file = disk.open(path)
    return file.read(0, file.size)


def test_parts_are_written_behind_each_other(disk):
    file = disk.create("1/0/a")

    file.append([b"one", memoryview(b"two")])
    file.append([b"three"])

    assert file.size == 11
    assert whole(disk, "1/0/a") == b"onetwothree"


def test_more_parts_than_one_call_takes_are_written_in_order(disk):
    file = disk.create("1/0/a")
    parts = [b"%d," % number for number in range(3_000)]

    file.append(parts)

    assert whole(disk, "1/0/a") == b"".join(parts)


def test_empty_parts_do_no_harm(disk):
    file = disk.create("1/0/a")

    file.append([b"", b"x", b""])
    file.append([])

    assert whole(disk, "1/0/a") == b"x"


def test_a_read_stops_where_the_file_ends(disk):
    file = disk.create("1/0/a")
    file.append([b"0123456789"])

    assert file.read(2, 3) == b"234"
    assert file.read(8, 100) == b"89"
    assert file.read(50, 1) == b""


def test_a_cut_file_goes_on_at_its_new_end(disk):
    file = disk.create("1/0/a")
    file.append([b"0123456789"])

    file.truncate(4)
    file.append([b"x"])
    file.sync()

    assert whole(disk, "1/0/a") == b"0123x"


def test_a_file_is_created_only_once(disk):
    disk.create("1/0/a")

    with pytest.raises(FileExistsError):
        disk.create("1/0/a")


def test_a_missing_file_cannot_be_opened_renamed_or_unlinked(disk):
    for act in (disk.open, disk.unlink, lambda path: disk.rename(path, "1/0/b")):
        with pytest.raises(FileNotFoundError):
            act("1/0/missing")


def test_a_replaced_file_holds_the_new_content_and_leaves_nothing_beside_it(disk):
    disk.replace("1/0/a", b"old and long")

    disk.replace("1/0/a", b"new")

    assert whole(disk, "1/0/a") == b"new"
    assert disk.listdir("1/0") == ["a"]


def test_a_reader_goes_on_after_its_file_is_renamed_and_unlinked(disk):
    disk.create("1/0/a").append([b"data"])
    reader = disk.open("1/0/a")

    disk.rename("1/0/a", "1/0/b")
    disk.unlink("1/0/b")
    disk.sync_directory("1/0")

    assert reader.read(0, 4) == b"data"
    assert disk.listdir("1/0") == []


def test_directories_can_be_made_again(disk):
    disk.make_directories("1/0")
    disk.make_directories("1/7")

    assert disk.listdir("1") == ["0", "7"]


def test_a_missing_directory_cannot_be_listed_or_synced(disk):
    for act in (disk.listdir, disk.sync_directory):
        with pytest.raises(FileNotFoundError):
            act("9")


@pytest.mark.parametrize("path", ["../a", "/a", "1//a", "1/./a", "1/../../a", "a\0"])
def test_a_path_cannot_leave_the_root(disk, path):
    with pytest.raises(AssertionError):
        disk.open(path)


def test_a_mapped_file_shows_its_bytes(disk):
    disk.create("1/0/a").append([b"0123456789"])

    assert bytes(disk.map("1/0/a")) == b"0123456789"


def test_an_empty_file_can_be_mapped(disk):
    disk.create("1/0/a")

    assert bytes(disk.map("1/0/a")) == b""


def test_a_mapped_file_can_be_read_on_after_it_is_removed(disk):
    disk.create("1/0/a").append([b"0123456789"])
    mapped = disk.map("1/0/a")

    disk.unlink("1/0/a")

    assert bytes(mapped) == b"0123456789"


def test_a_file_that_is_not_there_cannot_be_mapped(disk):
    with pytest.raises(FileNotFoundError):
        disk.map("1/0/a")
