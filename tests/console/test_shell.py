"""What stands before every page: hosts, headers, sessions, forms, logins, errors."""

import pytest

import headwater
from headwater.console.facts.growth import Growth
from headwater.console.sessions import (
    AGE_S_MAX,
    IDLE_S_MAX,
    SESSIONS_MAX,
    VISITORS_MAX,
    ConsoleSessions,
    StaleFormError,
)
from headwater.doors.storage import DoorCaller
from headwater.server.logins import Users
from tests.cases import cases
from tests.clocks import InstantClock
from tests.console.browsing import Browser, opened_console
from tests.serving import serving

PAGES = ("/", "/tables", "/tables/shop/clicks", "/nothing", "/login", "/static/console.css")


@cases("path", PAGES)
def test_every_answer_forbids_scripts_frames_and_guesses_of_types(path, browser):
    answer = browser.get(path)

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@cases("path", [each for each in PAGES if "static" not in each])
def test_no_page_has_a_script_or_a_style_of_its_own(path, browser):
    text = browser.get(path).text

    assert "<style" not in text
    assert ' style="' not in text
    assert " onclick=" not in text
    assert all("src=" in each for each in text.split("<script")[1:])


def test_a_cookie_is_kept_from_scripts_and_other_sites(console):
    cookie = Browser(console).get("/").headers["set-cookie"].lower()

    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_a_name_that_is_not_ours_leads_nowhere(browser):
    assert browser.get("/", Host="evil.example:80").status == 421
    assert browser.get("/", Host="localhost:80").status == 200


def test_a_form_without_its_token_changes_nothing(browser):
    browser.get("/")

    assert browser.post("/logout", token="").status == 403
    assert browser.post("/logout", token="guessed").status == 403
    assert browser.post("/logout").status == 303


def test_what_is_missing_is_told(browser):
    for path in ("/nothing", "/tables/shop/none", "/tables/none/none", "/tables/..%2f/x"):
        answer = browser.get(path)
        assert answer.status == 404, path
        assert "That did not work" in answer.text

    assert browser.get("/tables?page=x").status == 400
    assert browser.get("/static/../door.py").status == 404


# Logins.


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    place = tmp_path_factory.mktemp("guarded")
    users = Users({}).with_user("admin", "admin-secret").with_user("ada", "ada-secret")
    users.save(place / "users")
    options = ("--users", str(place / "users"), "--authorizer", "--super-users", "User:admin")
    with serving(place / "data", *options) as server:
        login = {"user": "admin", "password": "admin-secret"}
        with headwater.connect(server.address, **login) as hw:
            for name in ("open", "secret"):
                hw.create_table(f"fluss.{name}", {"id": "BIGINT"}, buckets=1).append([(1,)])
            hw.acls.grant("User:ada", "READ", "fluss.open")
        with opened_console((server.address,)) as address:
            yield address


def test_a_visitor_has_to_log_in(guarded):
    answer = Browser(guarded).get("/tables?q=x")

    assert answer.status == 303
    assert answer.headers["location"] == "/login?to=%2Ftables%3Fq%3Dx"


def test_a_part_that_needs_a_login_leads_the_whole_page_there(guarded):
    answer = Browser(guarded).get("/live/overview", HX_Request="true")

    assert answer.headers["hx-redirect"] == "/login"


@cases("user,password", [("admin", "wrong"), ("nobody", "x"), ("", "")])
def test_a_wrong_password_is_refused(user, password, guarded):
    browser = Browser(guarded)

    answer = browser.log_in(user, password)

    assert answer.status == 401
    assert browser.get("/tables").status == 303


def test_a_login_begins_a_session_of_another_name(guarded):
    browser = Browser(guarded)
    browser.get("/login")
    before = {each.value for each in browser.cookies}

    answer = browser.log_in("admin", "admin-secret")

    assert (answer.status, answer.headers["location"]) == (303, "/tables")
    assert not before & {each.value for each in browser.cookies}


def test_a_login_leads_to_no_other_site(guarded):
    for to in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x"):
        browser = Browser(guarded)
        browser.get("/login")
        form = {"user": "admin", "password": "admin-secret", "to": to}
        assert browser.post("/login", form).headers["location"] == "/", to


def test_a_user_sees_nothing_of_tables_that_are_not_theirs(guarded):
    admin, ada = Browser(guarded), Browser(guarded)
    admin.log_in("admin", "admin-secret")
    ada.log_in("ada", "ada-secret")

    assert "secret</a>" in admin.get("/tables").text
    for path in ("/tables", "/", "/live/overview", "/live/overview?part=lists"):
        answer = ada.get(path)
        assert answer.status == 200
        assert "secret" not in answer.text, path
    assert ada.get("/tables/fluss/open").status == 200
    assert ada.get("/tables/fluss/secret").status in (403, 404)
    assert ada.get("/tables/fluss/secret/count").status in (403, 404)


def test_who_logs_out_is_out(guarded):
    browser = Browser(guarded)
    browser.log_in("admin", "admin-secret")
    browser.get("/tables")

    assert browser.post("/logout").status == 303

    assert browser.get("/tables").status == 303


# Sessions.


def test_sessions_end_when_idle_or_old():
    clock = InstantClock()
    sessions = ConsoleSessions(clock)
    idle = sessions.begin(DoorCaller(user="ada"))
    clock.now_s += IDLE_S_MAX + 1

    assert sessions.of(idle.name) is None

    busy = sessions.begin(DoorCaller(user="ada"))
    for _ in range(int(AGE_S_MAX // IDLE_S_MAX) * 2):
        clock.now_s += IDLE_S_MAX / 2
        sessions.of(busy.name)
    clock.now_s += 1
    assert sessions.of(busy.name) is None


def test_sessions_are_bounded_and_visitors_push_out_nobody_who_logged_in():
    sessions = ConsoleSessions(InstantClock())
    member = sessions.begin(DoorCaller(user="ada"))

    for _ in range(VISITORS_MAX + 5):
        sessions.begin()

    assert sessions.of(member.name) is member
    assert len(sessions) == VISITORS_MAX + 1
    for _ in range(SESSIONS_MAX):
        sessions.begin(DoorCaller(user="ben"))
    assert sessions.of(member.name) is None


def test_a_session_takes_only_its_own_forms():
    sessions = ConsoleSessions(InstantClock())
    one, other = sessions.begin(), sessions.begin()

    one.check_form(one.form_token)
    for token in ("", other.form_token, "ä"):
        with pytest.raises(StaleFormError):
            one.check_form(token)


def test_growth_is_told_for_each_caller_and_survives_tables_that_are_recreated():
    growth = Growth()

    assert growth.rate("a", "t", 100, now_s=0.0) is None
    assert growth.rate("a", "t", 300, now_s=2.0) == 100.0
    assert growth.rate("b", "t", 300, now_s=2.0) is None
    assert growth.rate("a", "t", 5, now_s=4.0) is None
