"""`headwater repair` says what it does, asks first, and mends."""

import asyncio
import shlex
import shutil
from pathlib import Path

import pytest

import headwater
from headwater.rows.log_batch import HEADER_BYTES
from tests.audit.files.storages import errors, fill_keyed, fill_log, findings
from tests.audit.planting import flip, segment
from tests.cli.commanding import Storage, ok


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return a directory with a log table and a keyed one, made once."""
    directory = tmp_path_factory.mktemp("made") / "data"
    asyncio.run(fill_log(directory))
    asyncio.run(fill_keyed(directory))
    return directory


@pytest.fixture
def place(made, tmp_path) -> str:
    """Return a copy of it."""
    return str(shutil.copytree(made, tmp_path / "data"))


@pytest.fixture
def run(place) -> Storage:
    return Storage(place)


def names(place: str) -> list[str]:
    return sorted(str(path) for path in Path(place).rglob("*"))


def test_a_dry_run_says_what_would_be_done_and_does_nothing(place, run):
    before = names(place)

    shown = ok(run("repair", place, "events", "--bucket", "0", "--cut-at", "90", "--dry-run"))

    assert "cut 1/0/" in shown
    assert "Offsets 90 to 119 are given up" in shown
    assert "cursors" in shown
    assert names(place) == before


def test_nothing_is_done_where_nobody_can_be_asked(place, run):
    before = names(place)

    result = run("repair", place, "events", "--bucket", "0", "--cut-at", "90")

    assert result.exit_code == 3
    assert "Pass --yes" in result.stderr
    assert names(place) == before


def test_a_log_is_cut_and_the_rest_is_served(place, run):
    ok(run("repair", place, "events", "--bucket", "0", "--cut-at", "90", "--yes"))

    assert findings(Path(place)) == []
    assert ok(run("count", "events")).strip() == "90"


def test_a_state_and_an_index_are_built_anew(place, run):
    ok(run("repair", place, "fluss.users", "--bucket", "0", "--rebuild-state", "--yes"))
    ok(run("repair", place, "users", "--bucket", "0", "--rebuild-index", "--yes"))

    assert findings(Path(place)) == []
    assert ok(run("audit", "users", "--deep"))


def test_a_tiered_table_with_a_hole_is_mended_by_what_the_audit_says(tmp_path):
    run, data = Storage(str(tmp_path)), [{"id": number} for number in range(100)]
    with headwater.open(tmp_path) as hw:
        options = {"table.datalake.enabled": True}
        table = hw.create_table("t", {"id": "BIGINT"}, buckets=1, options=options)
        table.append(data)
        table.append(data)
    ok(run("tier", "--here", "--once"))
    flip(segment(tmp_path), HEADER_BYTES + 20)
    (remedy,) = {each.remedy for each in errors(tmp_path)}

    ok(run(*shlex.split(remedy[remedy.index("headwater repair") :])[1:], "--yes"))

    assert ok(run("audit", "--deep"))
    assert ok(run("count", "t")).strip() == "200"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("events", "--bucket", "0"), 3),
        (("events", "--bucket", "0", "--begin-at", "90", "--yes"), 3),
        (("events", "--bucket", "0", "--begin-at", "90", "--cut-at", "90"), 3),
        (("events", "--bucket", "0", "--cut-at", "90", "--rebuild-index"), 3),
        (("events", "--bucket", "0", "--cut-at", "95", "--yes"), 3),
        (("events", "--bucket", "4", "--cut-at", "90", "--yes"), 4),
        (("nothing", "--bucket", "0", "--cut-at", "90", "--yes"), 4),
        (("events", "--cut-at", "90"), 2),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_code(place, run, arguments, code):
    before = names(place)

    result = run("repair", place, *arguments)

    assert result.exit_code == code
    assert names(place) == before


def test_a_directory_that_is_not_there_is_not_made(tmp_path, run):
    result = run("repair", str(tmp_path / "other"), "events", "--bucket", "0", "--cut-at", "1")

    assert result.exit_code == 4
    assert not (tmp_path / "other").exists()
