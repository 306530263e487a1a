"""Cursors, permissions, settings and audits in the console, and acts that need --edit."""

import json
import time

import pytest

from headwater.console.facts.access import audit_facts
from headwater.console.facts.cursors import move_of
from headwater.console.facts.lags import LagHistory, lag_columns
from headwater.server.logins import Users
from tests.cases import cases
from tests.console.browsing import Browser, opened_console
from tests.console.conftest import HOSTILE
from tests.serving import serving

WITHIN_S = 60
HERE = "/cursors/billing/shop/clicks"


@pytest.fixture(scope="module")
def read(hw):
    """Return the storage with a cursor that read everything there was, and then some rows more."""
    table = hw.table("shop.clicks")
    with table.cursor("billing") as cursor:
        while cursor.poll(0.2):
            cursor.commit()
    table.append([{"id": number, "page": "/new"} for number in range(10)])
    return hw


@pytest.fixture
def editor(read):
    with opened_console((read.address,), edit=True) as address:
        made = Browser(address)
        made.get("/")
        yield made


def test_cursors_are_listed_with_their_lag(read, browser):
    assert ">billing</a>" in browser.get("/cursors").text
    text = browser.get(HERE).text
    assert "nobody" in text
    assert "Move it" not in text
    assert browser.get("/cursors/none/shop/clicks").status == 404


def test_the_lag_of_a_cursor_is_told_over_time(read, browser):
    found = json.loads(browser.get(f"{HERE}/lags?names=lag").text)["lag"]

    assert found["labels"][0] == "all buckets"
    assert found["columns"][1][-1] == 10


def test_a_move_says_what_it_would_skip_and_repeat(read):
    state = read.cursors.describe("billing", "shop.clicks")

    latest, earliest = move_of(read, state, "latest"), move_of(read, state, "earliest")

    assert (latest.skipped, latest.repeated) == (10, 0)
    assert (earliest.skipped, earliest.repeated) == (0, sum(state.positions.values()))


def test_a_cursor_is_moved_to_what_was_shown(read, editor):
    before = read.cursors.describe("billing", "shop.clicks").positions
    page = editor.get(f"{HERE}/move?to=earliest").text
    assert "rows read again" in page
    assert read.cursors.describe("billing", "shop.clicks").positions == before

    positions = json.dumps([[None, 0, 0], [None, 1, 0]])
    answer = editor.post(HERE, {"positions": positions})

    assert answer.status == 303
    assert set(read.cursors.describe("billing", "shop.clicks").positions.values()) == {0}


def test_a_cursor_is_deleted_once_its_name_was_typed(read, editor):
    read.cursors.reset("old", "shop.clicks", to="earliest")

    assert editor.post("/cursors/old/shop/clicks/delete", {"confirm": "ol"}).status == 400
    assert "old" in [each.name for each in read.cursors.list()]
    assert editor.post("/cursors/old/shop/clicks/delete", {"confirm": "old"}).status == 303
    assert "old" not in [each.name for each in read.cursors.list()]


ACTS = (
    (HERE, {"positions": "[[null,0,0]]"}),
    (f"{HERE}/delete", {"confirm": "billing"}),
    ("/access/grant", {"principal": "User:x", "operation": "READ", "resource": "shop"}),
    ("/access/revoke", {"principal": "User:x", "operation": "READ", "resource": "shop"}),
    ("/audit/start", {}),
)


def test_a_console_that_is_read_only_changes_nothing(read, browser):
    before = read.cursors.describe("billing", "shop.clicks").positions
    browser.get("/")

    for path, form in ACTS:
        answer = browser.post(path, form)
        assert answer.status == 400, path
        assert "read-only" in answer.text, path
        assert browser.post(path, form, token="").status == 403, path
    assert browser.get(f"{HERE}/move?to=latest").status == 400
    assert read.cursors.describe("billing", "shop.clicks").positions == before


def test_no_act_is_done_by_a_get_or_without_the_token(read, editor):
    before = read.cursors.describe("billing", "shop.clicks").positions

    for path, form in ACTS:
        assert editor.post(path, form, token="").status == 403, path
        if path != HERE:
            assert editor.get(path).status == 404, path
    assert read.cursors.describe("billing", "shop.clicks").positions == before


@cases("path", ["/cursors", "/access", "/server", "/audit"])
def test_pages_of_a_server_say_what_it_does_not_tell(path, browser):
    answer = browser.get(path)

    assert answer.status == 200
    assert "Traceback" not in answer.text


def test_settings_are_told_under_the_names_of_fluss(browser):
    assert "max.bucket.num" in browser.get("/server").text


def test_permissions_are_granted_listed_and_revoked(tmp_path):
    Users({}).with_user("admin", "admin-secret").save(tmp_path / "users")
    options = ("--users", str(tmp_path / "users"), "--authorizer", "--super-users", "User:admin")
    with (
        serving(tmp_path / "data", *options) as server,
        opened_console((server.address,), edit=True) as address,
    ):
        browser = Browser(address)
        browser.log_in("admin", "admin-secret")
        browser.get("/access")
        form = {"principal": "User:ada", "operation": "READ", "resource": "fluss", "host": "*"}
        granted = browser.post("/access/grant", form)
        listed = browser.get("/access").text
        partly = browser.post("/access/revoke", {**form, "principal": ""})
        revoked = browser.post("/access/revoke", {**form, "resource": "database:fluss"})
        after = browser.get("/access").text

    assert (granted.status, partly.status, revoked.status) == (303, 400, 303)
    assert "<td>User:ada</td><td>READ</td>" in listed
    assert "<td>User:ada</td>" not in after


# Audits.


def test_an_audit_is_started_and_its_findings_are_told(editor):
    assert editor.post("/audit/start").status == 303

    end = time.monotonic() + WITHIN_S
    while "Running since" in (text := editor.get("/audit").text):
        assert time.monotonic() < end
    assert "The audit started here" in text
    assert ">clean<" in text


def test_findings_of_tables_of_others_are_not_shown_and_all_are_escaped(hw, tmp_path):
    finding = {"check": "offsets", "severity": "error", "bucket": 0, "message": HOSTILE}
    findings = [{**finding, "table": "shop.clicks"}, {**finding, "table": "other.secret"}]
    report = tmp_path / "audit.json"
    report.write_text(json.dumps({"is_clean": False, "findings": findings, "started_ms": 1}))

    facts = audit_facts(report.read_text(), visible={"shop.clicks"})
    with opened_console((hw.address,), report=report) as address:
        text = Browser(address).get("/audit").text

    assert [each.place for each in facts.findings] == ["shop.clicks bucket 0"]
    assert facts.hidden == 1
    assert "other.secret" not in text
    assert HOSTILE not in text


def test_lags_are_kept_for_each_caller(read):
    state, lags = read.cursors.describe("billing", "shop.clicks"), LagHistory()

    lags.note("a", state, now_ms=0)
    lags.note("a", state, now_ms=10)
    line = lags.note("a", state, now_ms=5000)

    assert [each.at_ms for each in line] == [0, 5000]
    assert len(lags.note("b", state, now_ms=5000)) == 1
    assert lag_columns(())["labels"] == []
