"""The console in Chromium: every page and act, nothing in its log, axe-core content, pictures.

`make interop INTEROP="--parts console"` installs the browser, its driver and Selenium. Screenshots
of every page, light and dark, are left in .interop/console.
"""

import os
import time
from importlib import import_module
from pathlib import Path

import pytest

import headwater
from headwater.server.logins import Users
from tests.console.browsing import opened_console
from tests.console.conftest import HOSTILE, HOSTILE_COLUMN
from tests.console.test_command import opened
from tests.serving import serving

AXE_VARIABLE = "HEADWATER_AXE"  # as scripts/browser.py names it
PICTURES = Path(__file__).parents[3] / ".interop" / "console"
SERIOUS = ("serious", "critical")
WITHIN_S = 30
PAGES = (
    "/",
    "/tables",
    "/tables?q=hostile",
    "/tables/shop/orders",
    "/tables/shop/hostile",
    "/tables/shop/clicks/rows",
    "/tables/shop/clicks/rows?live=1",
    "/tables/shop/orders/rows?what=union",
    "/tables/shop/hostile/rows",
    "/tables/shop/orders/key?key_id=1",
    "/tables/shop/orders/sample",
    "/tables/shop/hostile/sample",
    "/tables/shop/orders/plan",
    "/sql",
    "/cursors",
    "/cursors/billing/shop/clicks",
    "/cursors/billing/shop/clicks/move?to=earliest",
    "/access",
    "/audit",
    "/server",
    "/nothing",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    directory = tmp_path_factory.mktemp("console") / "data"
    with serving(directory, "--console-port", "0", "--console-edit") as server:
        with headwater.connect(server.address) as hw:
            fill(hw)
        yield server, opened(server.events)


def fill(hw):
    hw.create_database("shop")
    clicks = hw.create_table("shop.clicks", {"id": "BIGINT", "page": "STRING"}, buckets=2)
    clicks.append([{"id": number, "page": f"/p{number}"} for number in range(500)])
    columns = {"id": "BIGINT", "city": "STRING", "amount": "DOUBLE"}
    options = {"table.datalake.enabled": True}
    orders = hw.create_table("shop.orders", columns, primary_key="id", buckets=2, options=options)
    orders.upsert([{"id": n, "city": "Ulm", "amount": n * 1.5} for n in range(300)])
    orders.upsert([{"id": n, "city": "Bonn", "amount": n * 2.5} for n in range(100)])
    hostile = hw.create_table("shop.hostile", {HOSTILE_COLUMN: "STRING"}, comment=HOSTILE)
    hostile.append([{HOSTILE_COLUMN: HOSTILE}])
    with clicks.cursor("billing") as cursor:
        cursor.poll()
        cursor.commit()


@pytest.fixture(scope="module")
def chromium():
    options = import_module("selenium.webdriver").ChromeOptions()
    for each in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1380,1000"):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = import_module("selenium.webdriver.chrome.service").Service("/usr/bin/chromedriver")
    driver = import_module("selenium.webdriver").Chrome(options=options, service=service)
    yield driver
    driver.quit()


def faults(driver, *, but=()):
    """Return what the browser complained about."""
    log = [each["message"] for each in driver.get_log("browser") if each["level"] == "SEVERE"]
    return [each for each in log if not any(part in each for part in but)]


def until(check):
    """Wait until something holds."""
    end = time.monotonic() + WITHIN_S
    while not (found := check()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def settle(driver):
    until(lambda: not driver.find_elements("css selector", ".htmx-request"))


def serious(driver):
    driver.execute_script(Path(os.environ[AXE_VARIABLE]).read_text())
    found = driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    return [
        (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0]["failureSummary"][:300])
        for each in found["violations"]
        if each["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_free_of_errors_and_of_serious_faults(theme, served, chromium):
    _, address = served
    PICTURES.mkdir(parents=True, exist_ok=True)
    chromium.get(f"{address}/login")
    chromium.execute_script(f"localStorage.setItem('theme', '{theme}')")
    found = {}
    for path in PAGES:
        chromium.get(address + path)
        settle(chromium)
        problems = serious(chromium) + faults(chromium, but=("/nothing",))
        if problems:
            found[path] = problems
        name = path.strip("/").replace("/", "_").replace("?", "_") or "overview"
        chromium.save_screenshot(str(PICTURES / f"{name}-{theme}.png"))

    assert found == {}


def test_hostile_values_run_nowhere(served, chromium):
    _, address = served
    for page in ("", "/rows", "/sample", "/plan", "/rows?what=union"):
        chromium.get(f"{address}/tables/shop/hostile{page}")
        settle(chromium)
        assert chromium.execute_script("return document.scripts.length") == 4
    assert faults(chromium) == []


def test_keys_lead_to_pages_and_search(served, chromium):
    _, address = served
    chromium.get(address)
    keys = import_module("selenium.webdriver.common.action_chains").ActionChains(chromium)

    keys.send_keys("g").send_keys("t").perform()
    until(lambda: chromium.current_url.endswith("/tables"))
    keys.reset_actions()
    keys.send_keys("/").send_keys("hostile").perform()

    until(lambda: len(chromium.find_elements("css selector", "#list tbody tr")) == 1)
    assert faults(chromium) == []


def test_a_query_is_typed_completed_run_and_drawn(served, chromium):
    _, address = served
    chromium.get(f"{address}/sql")
    editor = chromium.find_element("id", "text")
    until(
        lambda: (
            "shop.orders"
            in chromium.execute_script("return fetch('/sql/words?text=').then(a => a.text())")
        )
    )
    keys = import_module("selenium.webdriver.common.keys").Keys

    editor.send_keys("select city, count(*) as n from shop.ord")
    until(lambda: chromium.find_element("id", "complete").is_displayed())
    editor.send_keys(keys.TAB, " group by city", keys.CONTROL, keys.ENTER)

    until(lambda: "Bonn" in chromium.find_element("id", "result").text)
    assert "group by" in editor.get_property("value")
    assert serious(chromium) == []
    assert faults(chromium) == []


def test_live_rows_arrive_by_themselves(served, chromium):
    server, address = served
    chromium.get(f"{address}/tables/shop/clicks/rows?live=1&from=latest")

    with headwater.connect(server.address) as hw:
        hw.table("shop.clicks").append([{"id": 9999, "page": "/just-now"}])

    until(lambda: "/just-now" in chromium.find_element("id", "rows").text)
    assert faults(chromium) == []


def test_a_cursor_is_moved_after_it_was_said_what_that_does(served, chromium):
    server, address = served
    chromium.get(f"{address}/cursors/billing/shop/clicks/move?to=earliest")
    text = chromium.find_element("id", "main").text
    assert "would be skipped" in text

    chromium.find_element("css selector", "form button.danger").click()

    until(lambda: "Moved cursor billing" in chromium.find_element("id", "main").text)
    with headwater.connect(server.address) as hw:
        state = hw.cursors.describe("billing", "shop.clicks")
    assert set(state.positions.values()) == {0}


def test_an_audit_is_started_and_told(served, chromium):
    _, address = served
    chromium.get(f"{address}/audit")

    chromium.find_element("css selector", "form button.main").click()

    until(lambda: "clean" in chromium.find_element("id", "main").text)
    assert faults(chromium) == []


def test_the_theme_is_switched_and_kept(served, chromium):
    _, address = served
    chromium.get(address)
    chromium.execute_script("localStorage.setItem('theme', 'light')")
    chromium.get(address)

    chromium.find_element("css selector", "[data-theme-switch]").click()
    chromium.get(f"{address}/tables")

    assert chromium.execute_script("return document.documentElement.dataset.theme") == "dark"


def test_a_user_logs_in_and_out(tmp_path, chromium):
    Users({}).with_user("ada", "ada-secret").save(tmp_path / "users")
    with (
        serving(tmp_path / "data", "--users", str(tmp_path / "users")) as server,
        opened_console((server.address,)) as address,
    ):
        chromium.get(f"{address}/tables")
        assert serious(chromium) == []
        chromium.find_element("name", "user").send_keys("ada")
        chromium.find_element("name", "password").send_keys("ada-secret")
        chromium.find_element("css selector", "button.main").click()
        until(lambda: "Log out" in chromium.page_source)
        chromium.find_element("css selector", ".foot form button").click()
        until(lambda: chromium.current_url.endswith("/login"))
        assert chromium.get_cookie("headwater_console")["httpOnly"]
