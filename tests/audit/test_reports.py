"""What a report says, and how it is put together."""

import json
from dataclasses import replace

from headwater.audit.report import FINDINGS_MAX, AuditReport, Check, Finding, Notes, Proof, Severity

BAD = Finding(check=Check.OFFSETS, table="a.t", bucket=1, offset=7, message="Gone.", remedy="Look.")
WARNING = Finding(check=Check.CURSORS, severity=Severity.WARNING, message="Old.")


def test_warnings_leave_a_report_clean():
    assert AuditReport(findings=(WARNING,)).is_clean
    assert not AuditReport(findings=(WARNING, BAD)).is_clean
    assert AuditReport(findings=(WARNING, BAD)).first_error is BAD


def test_a_report_is_one_json_document():
    report = AuditReport(
        findings=(BAD,),
        proofs=(Proof(check=Check.LAKE_ROWS, table="a.t", amount=3, note="in part"),),
        started_ms=5,
        duration_s=0.5,
    )

    document = json.loads(report.to_json())

    assert document["is_clean"] is False
    assert document["findings"][0]["offset"] == 7
    assert document["proofs"][0] == {
        "check": "lake rows",
        "table": "a.t",
        "amount": 3,
        "unit": "rows",
        "note": "in part",
    }


def test_a_finding_names_its_place_from_the_largest_to_the_smallest():
    finding = Finding(check=Check.STATE, table="a.t", partition="p", bucket=0, offset=0)

    assert finding.place == "a.t partition p bucket 0 offset 0"
    assert WARNING.place == ""


def test_what_was_noted_before_a_report_stands_in_front_and_nothing_twice():
    notes = Notes()
    other = Finding(check=Check.FILES, message="A file is odd.")
    notes.take([other, BAD], [Proof(check=Check.FILES), Proof(check=Check.OFFSETS, table="a.t")])
    again = Finding(check=Check.OFFSETS, table="a.t", bucket=1, offset=7, message="Missing.")
    report = AuditReport(
        findings=(again, WARNING), proofs=(Proof(check=Check.OFFSETS, table="a.t"),)
    )

    joined = report.behind(notes)

    assert joined.findings == (other, BAD, WARNING)
    assert [each.check for each in joined.proofs] == [Check.FILES, Check.OFFSETS]


def test_a_flood_of_findings_is_cut_off():
    notes = Notes()

    for _ in range(FINDINGS_MAX + 5):
        notes.bad(BAD)

    assert len(notes.findings) == FINDINGS_MAX


def test_a_flood_of_warnings_hides_no_error():
    notes = Notes()
    notes.take([WARNING] * (FINDINGS_MAX + 5), [])

    notes.bad(BAD)

    assert not AuditReport(findings=notes.findings).is_clean


def test_an_error_stands_behind_a_warning_about_the_same_place_and_not_the_other_way_round():
    odd = replace(BAD, severity=Severity.WARNING, message="Odd.")
    warned, accused = Notes(), Notes()
    warned.bad(odd)
    accused.bad(BAD)

    assert AuditReport(findings=(BAD,)).behind(warned).findings == (odd, BAD)
    assert AuditReport(findings=(odd,)).behind(accused).findings == (BAD,)


def test_whoever_watches_hears_what_is_looked_at():
    heard: list[str] = []

    Notes(heard.append).progress("a.t bucket 0")

    assert heard == ["a.t bucket 0"]
