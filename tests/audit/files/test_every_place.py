"""Damage is found wherever it is: every kind of file, at places all over its length."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.audit.files.walk import audit_disk
from headwater.audit.report import Notes, Severity
from headwater.store.local import LocalDisk
from tests.audit.files.storages import fill_keyed, fill_log, findings
from tests.figures import note

PLACES = 256
FEW = 6
PADDING_BYTES = 16  # behind the rows of a state; nobody reads their values


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return a directory of closed logs and states with files of every kind."""
    directory = tmp_path_factory.mktemp("made") / "data"
    asyncio.run(fill_log(directory))
    asyncio.run(fill_keyed(directory))
    assert findings(directory) == []
    return directory


def is_noticed(directory: Path) -> bool:
    notes = Notes()
    audit_disk(LocalDisk(directory / "log"), notes, deep=False)
    return any(each.severity is Severity.ERROR for each in notes.findings)


def files(directory: Path) -> list[tuple[Path, bytes]]:
    return [
        (path, path.read_bytes())
        for path in sorted((directory / "log").rglob("*"))
        if path.is_file() and path.stat().st_size
    ]


def flipped(path: Path, data: bytes, places: int) -> Iterator[bytes]:
    """Yield a file with one bit flipped, at places all over it."""
    end = len(data) - (PADDING_BYTES if path.name.startswith("segment-") else 0)
    for number in range(places):
        at = number * (end - 1) // max(places - 1, 1)
        yield data[:at] + bytes([data[at] ^ 1 << number % 8]) + data[at + 1 :]


def cut(path: Path, data: bytes, places: int) -> Iterator[bytes]:
    """Yield a file that ends early, at places all over it."""
    for number in range(places):
        yield data[: number * len(data) // places]


def unnoticed(directory: Path, damaged, places: int) -> list[tuple[str, int]]:
    """Return the files whose damage an audit does not find, and at which place."""
    missed = []
    for path, data in files(directory):
        for number, bad in enumerate(damaged(path, data, places)):
            path.write_bytes(bad)
            if not is_noticed(directory):
                missed.append((path.name, number))
        path.write_bytes(data)
    return missed


@pytest.mark.parametrize("damaged", [flipped, cut])
def test_damage_is_found_in_every_kind_of_file(made, damaged):
    assert unnoticed(made, damaged, FEW) == []


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("damaged", [flipped, cut])
def test_damage_is_found_at_every_place(made, damaged):
    assert unnoticed(made, damaged, PLACES) == []

    note("damage that an audit finds", places=PLACES * len(files(made)))


def test_segments_in_each_others_place_are_found(made):
    keyed = max((made / "log").iterdir(), key=lambda table: int(table.name))
    first, second, *_ = sorted((keyed / "0").glob("*.log"))
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])

    is_found = is_noticed(made)

    first.write_bytes(contents[0])
    second.write_bytes(contents[1])
    assert is_found
