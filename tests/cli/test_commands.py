"""The command line as people and machines meet it."""

import json
import logging
import os
import signal
import stat
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from headwater import __version__
from headwater.cli.main import app
from headwater.server.logins import Users
from tests.serving import serving

RUN_WITHIN_S = 20


def headwater(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as a server must be."""
    return subprocess.run(
        [sys.executable, "-m", "headwater", *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
    )


@pytest.fixture(autouse=True)
def _events_as_before():
    """Undo what a command that runs in this process does to its log."""
    root, own = logging.getLogger(), logging.getLogger("headwater")
    handlers, level = root.handlers[:], own.level
    yield
    root.handlers[:] = handlers
    own.setLevel(level)


def called(*arguments: str, **given):
    return CliRunner().invoke(app, arguments, **given)


def test_the_version_is_told():
    result = headwater("--version")

    assert (result.returncode, result.stdout) == (0, f"headwater {__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--help"], ["serve", "user", "--version"]),
        (["serve", "--help"], ["--host", "--port", "--users", "--insecure", "--log-format"]),
        (["user", "--help"], ["add", "list", "remove"]),
        (["user", "add", "--help"], ["--password", "Name of the user", "File of users"]),
    ],
)
def test_every_command_explains_itself(arguments, told):
    result = headwater(*arguments)

    assert result.returncode == 0
    assert [word for word in told if word not in result.stdout] == []


def test_listening_beyond_the_machine_is_refused_with_a_way_out(tmp_path):
    result = called("serve", str(tmp_path / "data"), "--host", "0.0.0.0", "--port", "0")

    assert result.exit_code == 3
    assert "--users" in result.stderr
    assert "--insecure" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_file_without_users_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "users").touch(mode=0o600)

    result = called("serve", str(tmp_path / "data"), "--users", str(tmp_path / "users"))

    assert result.exit_code == 3
    assert "headwater user" in result.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--log-format", "xml"),
        ("--log-level", "LOUD"),
        ("--advertise", "nowhere"),
        ("--advertise", "host:port"),
        ("--port", "70000"),
        ("--lake", "uri"),
        ("--lake", "uri=sqlite:///lake"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(tmp_path, option, value):
    result = called("serve", str(tmp_path / "data"), option, value)

    assert result.exit_code == 3
    assert option.strip("-") in result.stderr
    assert "Traceback" not in result.stderr


def test_a_directory_that_cannot_be_used_is_an_error_and_no_traceback(tmp_path):
    (tmp_path / "data").write_text("a file")

    result = headwater("serve", str(tmp_path / "data"), "--port", "0")

    assert result.returncode == 9
    assert "Traceback" not in result.stderr
    assert str(tmp_path / "data") in result.stderr


def test_a_user_is_added_and_changed(tmp_path):
    path = tmp_path / "users"

    results = [
        called("user", str(path), "ann", "--password", "one"),
        called("user", str(path), "bob", "--password", "two"),
        called("user", str(path), "ann", input="three\nthree\n"),
    ]

    assert [result.exit_code for result in results] == [0, 0, 0]
    Users.load(path).check("ann", "three")
    Users.load(path).check("bob", "two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_users_are_listed_and_removed(tmp_path):
    path = str(tmp_path / "users")
    for name in ("bob", "ann"):
        called("user", "add", path, name, "--password", "one")

    before = called("user", "list", path).stdout.split()
    results = [called("user", "remove", path, "ann"), called("user", "remove", path, "ann")]

    assert before == ["ann", "bob"]
    assert [result.exit_code for result in results] == [0, 3]
    assert "bob" in results[1].stderr
    assert called("user", "list", path).stdout.split() == ["bob"]
    assert called("user", "list", path + "s").exit_code == 3


@pytest.mark.parametrize(
    ("file", "name", "code"), [("users", "a:b", 3), ("missing/users", "ann", 1)]
)
def test_a_user_that_cannot_be_added_is_an_error_and_no_traceback(tmp_path, file, name, code):
    result = called("user", str(tmp_path / file), name, "--password", "x")

    assert result.exit_code == code
    assert result.stderr.startswith("headwater: ")


def test_a_log_for_machines_holds_one_object_per_line(tmp_path):
    command = [sys.executable, "-m", "headwater", "serve", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(
        [*command, "--log-format", "json"], stderr=subprocess.PIPE, text=True
    ) as process:
        lines = [process.stderr.readline()]
        process.send_signal(signal.SIGTERM)
        lines += process.stderr.readlines()

    events = [json.loads(line) for line in lines]
    assert process.returncode == 0
    assert [each["event"] for each in events] == ["serving", "stopping", "stopped"]
    assert {"time", "level", "component", "port", "directory"} <= set(events[0])


def test_a_server_serves_under_the_name_it_is_given(tmp_path):
    with serving(tmp_path / "data", "--log-level", "debug", "--advertise", "example.org:99") as it:
        assert it.port > 0

    assert "stopped" in it.events()
