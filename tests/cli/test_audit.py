"""`headwater audit`: what it prints, and how it ends."""

import json
import shutil

import pytest

import headwater
from headwater.audit.report import AuditReport, Check, Finding, Proof, Severity
from headwater.cli.audit_run import report_text, verdict
from headwater.rows.log_batch import HEADER_BYTES
from tests.audit.planting import flip, segment
from tests.cli.commanding import Storage, ok

COLUMNS = ("--column", "id:BIGINT", "--column", "name:STRING")
ROWS = "".join(f'{{"id": {at}, "name": "n{at}"}}\n' for at in range(10))
BAD = Finding(
    check=Check.OFFSETS, table="a.t", bucket=0, offset=7, message="Gone.", remedy="Look for it."
)
ODD = Finding(check=Check.CURSORS, severity=Severity.WARNING, message="Old.")


@pytest.fixture
def keyed(storage, name):
    ok(storage("table", "create", name, *COLUMNS, "--primary-key", "id"))
    ok(storage("upsert", name, stdin=ROWS))
    return name


@pytest.fixture
def damaged(directory):
    """Return a directory in which a bit flipped."""
    with headwater.open(directory) as hw:
        table = hw.create_table("t", {"id": "BIGINT"}, buckets=1)
        table.append([{"id": at} for at in range(5)])
        table.append([{"id": at} for at in range(5)])
    flip(segment(directory), HEADER_BYTES + 20)
    return Storage(str(directory))


@pytest.fixture
def beside(damaged, directory):
    """Return a directory with a good table beside one in which a bit flipped."""
    content = segment(directory).read_bytes()
    flip(segment(directory), HEADER_BYTES + 20)
    with headwater.open(directory) as hw:
        hw.create_table("good", {"id": "BIGINT"}, buckets=1).append([{"id": 1}])
    segment(directory).write_bytes(content)
    return damaged


def files(directory):
    return {path: path.is_file() and path.read_bytes() for path in directory.rglob("*")}


def test_a_clean_table_is_told_check_by_check(storage, keyed):
    lines = ok(storage("audit", keyed)).splitlines()

    checks = [line.split()[1:] for line in lines if line.startswith(f"fluss.{keyed}")]
    assert ["offsets", "10", "rows", "ok"] in checks
    assert ["state", "10", "rows", "ok"] in checks
    assert lines[-1].startswith("Clean: no errors; 1 table in ")


def test_deep_looks_at_contents_too(storage, keyed):
    printed = ok(storage("audit", keyed, "--deep"))

    assert "lookups" in printed
    assert "lookups" not in ok(storage("audit", keyed))


@pytest.mark.parametrize("wish", [("--json",), ("--output", "json")])
def test_the_report_as_json_is_one_document(storage, keyed, wish):
    document = json.loads(ok(storage("audit", keyed, *wish)))

    assert document["is_clean"] is True
    assert {
        "check": "state",
        "table": f"fluss.{keyed}",
        "amount": 10,
        "unit": "rows",
        "note": "",
    } in (document["proofs"])


def test_csv_has_a_line_for_each_finding(damaged):
    head, *lines = damaged("audit", "-o", "csv").stdout.splitlines()

    assert head == "severity,check,table,partition,bucket,offset,message,remedy"
    assert lines[0].startswith("error,")


def test_damage_is_told_with_its_offset_and_what_to_do_and_ends_with_9(damaged):
    result = damaged("audit")

    assert result.exit_code == 9
    assert "error: fluss.t bucket 0 offset 0: " in result.stdout
    assert "what to do: " in result.stdout
    assert result.stdout.splitlines()[-1].startswith("Not clean: ")


def test_what_the_files_said_is_not_said_again_by_the_storage(damaged):
    document = json.loads(damaged("audit", "--json").stdout)

    places = [(each["check"], each["bucket"], each["offset"]) for each in document["findings"]]
    assert len(places) == len(set(places))


def test_an_audit_leaves_a_directory_alone_that_has_bad_files(damaged, directory):
    before = files(directory)

    first, second = (json.loads(damaged("audit", "--json").stdout) for _ in range(2))

    assert first["findings"] == second["findings"] != []
    assert [each["note"][:10] for each in first["proofs"] if each["check"] == "readable"] == [
        "not opened"
    ]
    assert before == files(directory)


@pytest.mark.parametrize("name", [None, "readme.txt", "LOCK"])
def test_a_directory_that_is_no_storage_is_a_mistake_and_stays_as_it_is(tmp_path, name):
    if name is not None:
        (tmp_path / name).write_text("Hello.")
    before = files(tmp_path)

    result = Storage(str(tmp_path))("audit")

    assert result.exit_code == 4
    assert "contains no storage" in result.stderr
    assert files(tmp_path) == before


def test_a_table_that_is_not_beside_one_that_is_damaged_is_a_mistake(damaged):
    assert damaged("audit", "nosuch").exit_code == 4


def test_a_table_beside_one_that_is_damaged_is_not_called_proven(beside, directory):
    before = files(directory)

    result = beside("audit", "good", "--deep")

    assert result.exit_code == 9
    assert "are not proven: the files of other tables are bad, those of fluss.t" in result.stdout
    assert files(directory) == before


def test_a_report_of_a_directory_that_was_not_opened_tells_when_and_how_long(damaged):
    document = json.loads(damaged("audit", "--json").stdout)

    assert document["started_ms"] > 0
    assert document["duration_s"] > 0


def test_a_lake_that_is_gone_is_told_and_not_made_anew(directory):
    with headwater.open(directory) as hw:
        options = {"table.datalake.enabled": True}
        hw.create_table("t", {"id": "BIGINT"}, buckets=1, options=options).append([{"id": 1}])
    ok(Storage(str(directory))("tier", "--here", "--once"))
    shutil.rmtree(directory / "lake" / "iceberg")

    result = Storage(str(directory))("audit")

    assert result.exit_code == 9
    assert "does not exist" in result.stdout
    assert not (directory / "lake" / "iceberg").exists()


def test_a_directory_in_use_is_audited_through_who_has_it(directory):
    with headwater.open(directory):
        result = Storage(str(directory))("audit")

    assert result.exit_code == 5
    assert "headwater audit --at HOST:PORT" in result.stderr


def test_a_table_that_there_is_not_is_a_mistake(storage):
    assert storage("audit", "nothing").exit_code == 4


def test_a_directory_that_there_is_not_is_not_made(directory):
    missing = directory / "nowhere"

    assert Storage(str(missing))("audit").exit_code == 4
    assert not missing.exists()


# ---- the text


def test_the_verdict_counts_and_names_the_first_error():
    report = AuditReport(
        findings=(ODD, BAD), proofs=(Proof(check=Check.OFFSETS, table="a.t"),), duration_s=1.25
    )

    assert verdict(report) == (
        "Not clean: 1 error, 1 warning; 1 table in 1.2 s. The first is at a.t bucket 0 offset 7."
    )


def test_errors_come_before_warnings_and_carry_their_remedy():
    text = report_text(AuditReport(findings=(ODD, BAD)))

    assert text.index("error: a.t bucket 0 offset 7: Gone.") < text.index("warning: Old.")
    assert "\n  what to do: Look for it.\n" in text


def test_what_is_proven_in_part_or_not_at_all_says_why():
    partly = Proof(check=Check.STATE, table="a.t", amount=5, note="it was cut")
    nothing = Proof(check=Check.STATE, table="b.t", note="it cannot be asked")

    lines = report_text(AuditReport(proofs=(partly, nothing))).splitlines()

    assert lines[0].split("  ")[-1] == "ok, in part: it was cut"
    assert lines[1].split("  ")[-1] == "not proven: it cannot be asked"


def test_text_from_elsewhere_cannot_change_the_terminal():
    finding = Finding(check=Check.READABLE, message="\x1b[2J")

    assert "\x1b" not in report_text(AuditReport(findings=(finding,)))
