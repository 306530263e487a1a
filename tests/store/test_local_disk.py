"""What only a disk of the machine can show."""

import errno
import os
from pathlib import Path

import pytest

from headwater.store.local import LocalDisk


def limited(monkeypatch, bytes_per_call, *, fail_after=None):
    """Let each write take few bytes, and fail after some calls."""
    real, calls = os.pwritev, []

    def write(descriptor, parts, position):
        calls.append(position)
        if fail_after is not None and len(calls) > fail_after:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, [b"".join(parts)[:bytes_per_call]], position)

    monkeypatch.setattr(os, "pwritev", write)


def test_short_writes_are_continued(tmp_path, monkeypatch):
    file = LocalDisk(tmp_path).create("a")
    limited(monkeypatch, 3)

    file.append([b"0123", memoryview(b"456789"), b"x"])

    assert file.read(0, 100) == b"0123456789x"


def test_a_failed_write_is_cut_back(tmp_path, monkeypatch):
    file = LocalDisk(tmp_path).create("a")
    file.append([b"kept"])
    limited(monkeypatch, 3, fail_after=2)

    with pytest.raises(OSError, match="full"):
        file.append([b"0123456789"])

    assert (tmp_path / "a").read_bytes() == b"kept"
    assert file.size == 4


def test_a_write_that_cannot_be_cut_back_is_no_mere_full_disk(tmp_path, monkeypatch):
    file = LocalDisk(tmp_path).create("a")
    limited(monkeypatch, 3, fail_after=1)
    monkeypatch.setattr(os, "ftruncate", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "x")))

    with pytest.raises(OSError, match="could not be undone") as raised:
        file.append([b"0123456789"])

    assert raised.value.errno == errno.EIO


def test_a_symbolic_link_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "a").symlink_to(tmp_path / "secret")

    with pytest.raises(OSError, match="symbolic") as raised:
        LocalDisk(tmp_path).open("a")

    assert raised.value.errno == errno.ELOOP


def test_files_are_for_their_owner_only_and_not_inherited(tmp_path):
    file = LocalDisk(tmp_path).create("a")

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert not os.get_inheritable(file._descriptor)


def test_a_file_closes_when_nobody_holds_it(tmp_path):
    file = LocalDisk(tmp_path).create("a")
    descriptor = file._descriptor

    del file

    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)


def test_the_root_is_made_with_its_parents(tmp_path):
    disk = LocalDisk(tmp_path / "x" / "y")

    disk.make_directories("1/0")

    assert (tmp_path / "x" / "y" / "1" / "0").is_dir()


def synced_directories(monkeypatch):
    """Note the directories whose names are made durable."""
    real, seen = os.fsync, []

    def sync(descriptor):
        seen.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return seen


def test_every_directory_that_is_made_is_durable_in_its_parent(tmp_path, monkeypatch):
    seen = synced_directories(monkeypatch)

    LocalDisk(tmp_path / "data" / "log").make_directories("1/p2/0")

    made = ["", "data", "data/log", "data/log/1", "data/log/1/p2"]
    assert seen == [str(tmp_path / each) for each in made]


def test_a_directory_whose_maker_was_killed_is_made_durable_once(tmp_path, monkeypatch):
    (tmp_path / "log" / "1" / "0").mkdir(parents=True)
    (tmp_path / "log" / "1" / "1").mkdir()
    seen = synced_directories(monkeypatch)
    disk = LocalDisk(tmp_path / "log")

    for _ in range(2):
        disk.make_directories("1/0")
        disk.make_directories("1/1")

    assert seen == [str(tmp_path / each) for each in ("", "log", "log/1")]


def test_what_the_kernel_holds_of_a_file_is_forgotten_when_a_sync_fails(tmp_path, monkeypatch):
    file = LocalDisk(tmp_path).create("a")
    forgotten = []

    def fail(descriptor):
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr("headwater.store.local.sync_data", fail)
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: forgotten.append(given))

    with pytest.raises(OSError, match="injected"):
        file.sync()

    assert forgotten == [(file._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)]
