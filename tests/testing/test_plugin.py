"""The plugin gives suites of other people what its page promises, and nothing else."""

import re
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "test-with-headwater.md"
PLUGIN = "headwater.testing.plugin"
SCHEMA = 'pa.schema([("id", pa.int64())])'


@pytest.fixture
def suite(pytester, monkeypatch):
    """Return what runs a suite of somebody else, who is strict about warnings."""
    # Only what is asked for: the plugin may be installed or not, and no other is needed.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(f"import pyarrow as pa\nimport pytest\n\n{source}")
        given = ("-W", "error", "--strict-markers", "--strict-config", *options)
        return pytester.runpytest_subprocess("-p", PLUGIN, *given, timeout=90)

    return run


def test_pytest_finds_the_plugin_by_itself():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"headwater": PLUGIN}


def test_every_test_of_the_page_passes(suite):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    source = "\n\n".join(blocks)

    result = suite(source)

    result.assert_outcomes(passed=source.count("\ndef test_"))


def test_the_page_names_every_fixture(suite):
    result = suite("", "--fixtures")

    shown = re.findall(r"^(headwater_\w+)", "\n".join(result.outlines), re.MULTILINE)
    assert len(shown) == 5
    assert all(f"| `{name}` |" in PAGE.read_text() for name in shown)


def test_each_test_has_an_empty_storage_and_all_share_that_of_the_session(suite):
    result = suite(f"""
@pytest.mark.parametrize("turn", [0, 1])
def test_one(headwater_storage, headwater_session_storage, turn):
    assert headwater_storage.list_tables() == []
    assert len(headwater_session_storage.list_tables()) == turn
    headwater_storage.create_table("mine", {SCHEMA})
    headwater_session_storage.create_table(f"ours_{{turn}}", {SCHEMA})
""")

    result.assert_outcomes(passed=2)


def test_storages_and_servers_of_one_test_know_nothing_of_each_other(suite):
    result = suite(f"""
def test_several(headwater_storage_factory, headwater_server_factory):
    opened = [headwater_storage_factory(), headwater_storage_factory()]
    started = [headwater_server_factory(), headwater_server_factory()]
    clients = [*opened, *(server.connect() for server in started)]
    for number, client in enumerate(clients):
        client.create_table(f"t{{number}}", {SCHEMA})
    assert [client.list_tables() for client in clients] == [["t0"], ["t1"], ["t2"], ["t3"]]
    assert started[0].address != started[1].address
""")

    result.assert_outcomes(passed=1)


def test_what_a_test_leaves_open_is_closed_after_it(suite):
    result = suite(f"""
import threading

SEEN = []

def test_one(headwater_storage, headwater_server):
    SEEN.extend([headwater_storage, headwater_server.connect(), headwater_server])
    SEEN[0].create_table("t", {SCHEMA}).append([{{"id": 1}}])

def test_two():
    from headwater.errors import ClosedError, HeadwaterError
    for client in SEEN[:2]:
        with pytest.raises(ClosedError):
            client.list_tables()
    with pytest.raises(HeadwaterError):
        SEEN[2].connect()
    assert not [thread for thread in threading.enumerate() if "headwater" in thread.name]
""")

    result.assert_outcomes(passed=2)


def test_a_failed_test_still_closes_its_storage(suite):
    result = suite("""
OPENED = []

def test_one(headwater_storage_factory):
    OPENED.append(headwater_storage_factory())
    raise RuntimeError

def test_two():
    from headwater.errors import ClosedError
    with pytest.raises(ClosedError):
        OPENED[0].list_tables()
""")

    result.assert_outcomes(passed=1, failed=1)


def test_loading_the_plugin_loads_nothing_that_its_fixtures_need(pytester):
    script = pytester.makepyfile(
        f"import sys, {PLUGIN}\n"
        "loaded = {'headwater.testing.server', 'headwater.testing.server'} & set(sys.modules)\n"
        "sys.exit(str(loaded) if loaded else 0)\n"
    )

    assert pytester.runpython(script).ret == 0
