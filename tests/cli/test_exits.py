"""How commands end: exit codes, one line of error, pipes and signals."""

import signal
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

import headwater
from headwater.cli.commands import (
    BRANCHES,
    EPILOG,
    INTERRUPTED,
    MEANINGS,
    TERMINATED,
    code_of,
    ending,
)
from headwater.cli.main import app
from headwater.errors import HeadwaterError, TableMissingError, TimedOutError
from headwater.server.logins import Users
from tests.cases import cases
from tests.cli.commanding import PLAIN, RUN_WITHIN_S, Storage, ok
from tests.serving import serving

COLUMNS = ("--column", "id:BIGINT")


def test_every_branch_of_the_tree_of_errors_has_a_code_of_its_own():
    assert set(BRANCHES) == set(HeadwaterError.__subclasses__())
    assert len(set(BRANCHES.values())) == len(BRANCHES)
    assert {0, 1, 2, *BRANCHES.values(), INTERRUPTED, TERMINATED} == set(MEANINGS)


def test_an_error_ends_with_the_code_of_its_branch():
    assert code_of(TableMissingError("x")) == 4
    assert code_of(TimedOutError("x")) == 7
    assert code_of(HeadwaterError("x")) == 1
    assert code_of(OSError("x")) == 1


@cases(
    ("fault", "code"),
    [
        (TableMissingError("There is no table.", hint="Make it."), 4),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
        (PermissionError(13, "denied", "there"), 1),
    ],
)
def test_what_ends_a_command_becomes_an_exit_code(fault, code):
    with pytest.raises(typer.Exit) as ended, ending(debug=False):
        raise fault

    assert ended.value.exit_code == code


@pytest.mark.parametrize("debug", [False, True])
def test_our_own_mistakes_are_one_line_too(capsys, debug):
    with pytest.raises(typer.Exit) as ended, ending(debug=debug):
        raise AssertionError("never")

    told = capsys.readouterr().err
    assert ended.value.exit_code == 1
    assert told.splitlines()[-1].startswith("headwater: Unexpected AssertionError")
    assert ("Traceback" in told) is debug


def test_an_error_is_one_line_and_shows_its_origin_on_demand(storage):
    plain = storage("scan", "nothing_here")
    debugging = storage("scan", "nothing_here", "--debug")

    assert plain.exit_code == debugging.exit_code == 4
    assert plain.stderr.startswith("headwater: ")
    assert plain.stderr.count("\n") == 1
    assert "Traceback" in debugging.stderr


def test_the_help_tells_all_exit_codes():
    shown = CliRunner().invoke(app, ["--help"], env=PLAIN).stdout

    assert "Exit codes: 0 done; 1 unexpected error" in " ".join(shown.split())
    assert all(f"{code} " in EPILOG for code in MEANINGS)


def commands(group, path=()):
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, (*path, name))
        else:
            yield (*path, name), each


ALL = dict(commands(typer.main.get_command(app)))


@cases("path", ALL)
def test_every_command_shows_an_example_of_itself(path):
    assert f"Example: headwater {' '.join(path)} " in f"{ALL[path].help} "


def test_a_server_that_is_not_there_is_told_at_once_with_what_to_start(unused_tcp_port):
    at = f"127.0.0.1:{unused_tcp_port}"
    hour = ("--timeout", "1 h")

    for command in (["database", "list"], ["tail", "t"], ["audit"], ["tier", "--here"]):
        result = Storage(at)(*command, *hour)
        assert result.exit_code == 7, command
        assert result.stderr.startswith(f"headwater: Cannot reach {at}: Connection refused")
        assert "headwater serve ./data" in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_server_that_is_not_there_is_waited_for_no_longer_than_asked(unused_tcp_port):
    at = f"127.0.0.1:{unused_tcp_port}"

    result = Storage(at)("database", "list", "--wait", "--timeout", "500 ms")

    assert result.exit_code == 7
    assert result.stderr.startswith(f"headwater: Connecting to {at} did not succeed within 0.5 s")
    assert result.stderr.count("\n") == 1


def test_a_directory_is_not_made_by_looking_at_it(tmp_path):
    result = Storage(str(tmp_path / "data"))("table", "list")

    assert result.exit_code == 4
    assert not (tmp_path / "data").exists()


def test_a_directory_that_is_served_is_in_use(server):
    result = Storage(str(server.directory))("table", "list")

    assert result.exit_code == 5
    assert str(server.directory) in result.stderr


def test_credentials_are_asked_for_and_checked(tmp_path):
    Users.load(tmp_path / "users").with_user("ann", "secret").save(tmp_path / "users")
    with serving(tmp_path / "data", "--users", str(tmp_path / "users")) as server:
        storage = Storage(server.address)

        refused = [
            storage("database", "list", "--timeout", "5"),
            storage("database", "list", "--user", "ann", "--password", "wrong"),
        ]
        listed = storage("database", "list", "--user", "ann", "--password", "secret")

    assert [result.exit_code for result in refused] == [8, 8]
    assert "--user and --password" in refused[0].stderr
    assert "HEADWATER_USER" not in refused[1].stderr
    assert "fluss" in ok(listed)


def test_a_reader_of_a_pipe_may_go_away(server, name):
    storage = Storage(server.address)
    ok(storage("table", "create", name, *COLUMNS))
    ok(storage("append", name, stdin="".join(f'{{"id":{n}}}\n' for n in range(50_000))))

    with storage.process("scan", name, "--output", "csv") as process:
        assert process.stdout.readline() == "id\n"
        process.stdout.close()
        errors = process.stderr.read()

    assert (process.returncode, errors) == (0, "")


def test_a_command_in_a_process_of_its_own_prints_the_same(directory, name):
    storage = Storage(str(directory))
    ok(storage("table", "create", name, *COLUMNS))

    with storage.process("append", name, "--output", "json", stdin=subprocess.PIPE) as process:
        out, errors = process.communicate('{"id":1}\n{"id":2}\n', timeout=RUN_WITHIN_S)

    assert (process.returncode, errors) == (0, "")
    assert out == f'{{"table":"fluss.{name}","rows":2,"status":"appended"}}\n'
    assert ok(storage("scan", name, "-o", "csv")) == "id\n1\n2\n"


@pytest.mark.parametrize(("number", "code"), [("SIGINT", INTERRUPTED), ("SIGTERM", TERMINATED)])
def test_a_write_that_is_interrupted_tells_what_was_written(server, name, number, code):
    storage = Storage(server.address)
    ok(storage("table", "create", name, *COLUMNS))

    with storage.process("append", name, stdin=subprocess.PIPE) as process:
        process.stdin.write('{"id":1}\n')
        process.stdin.flush()
        _wait_for_rows(storage, name)
        # Others see a row before its writer hears that it is written: ask in a few more ways.
        for _ in range(10):
            ok(storage("count", name))
        process.send_signal(signal.Signals[number])
        errors = process.stderr.read()

    assert process.returncode == code
    assert errors.endswith("headwater: 1 row written before it stopped\n")


def _wait_for_rows(storage, name):
    while ok(storage("count", name)) == "0\n":
        pass


def test_completion_knows_the_tables_of_a_server(server, name):
    ok(Storage(server.address)("table", "create", name, *COLUMNS))
    line = f"headwater scan fluss.{name[:1]}"

    completed = _complete(server.address, line)

    assert f"fluss.{name}" in completed.stdout


def test_completion_knows_short_names_columns_options_and_cursors(server, name):
    ok(Storage(server.address)("table", "create", name, *COLUMNS, "--column", "city:STRING"))
    with (
        headwater.connect(server.address) as hw,
        hw.table(name).cursor(f"c{name}", start="latest") as cursor,
    ):
        cursor.poll(timeout_s=0.1)
        cursor.commit()

    for line, told in {
        f"headwater scan {name}": name,
        f"headwater scan {name} --columns id,c": "id,city",
        "headwater table alter x --set table.log.tt": "table.log.ttl=",
        "headwater cursor describe c": f"c{name}",
    }.items():
        assert told in _complete(server.address, line).stdout.splitlines(), line
    assert "headwater.cursors" not in _complete(server.address, "headwater scan h").stdout


def test_internal_tables_are_listed_on_demand_only(server, name):
    storage = Storage(server.address)
    ok(storage("table", "create", name, *COLUMNS))
    with headwater.connect(server.address) as hw, hw.table(name).cursor(f"c{name}") as cursor:
        cursor.poll(timeout_s=0.1)
        cursor.commit()

    for shown in (["table", "list"], ["database", "list"]):
        assert "headwater" not in {row["database"] for row in storage.rows(*shown)}
        assert "headwater" in {row["database"] for row in storage.rows(*shown, "--all")}
    assert storage.rows("table", "list", "headwater")


@cases("at", ["127.0.0.1:1", "/nowhere"])
def test_completion_keeps_quiet_where_nothing_is_known(at):
    completed = _complete(at, "headwater scan f")

    assert (completed.stdout.strip(), completed.stderr) == ("", "")


def _complete(at, line):
    env = {
        **Storage(at).env,
        "_HEADWATER_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    code = "from headwater.cli.main import app; app(prog_name='headwater')"
    return subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
    )
