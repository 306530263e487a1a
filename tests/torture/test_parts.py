"""`make torture` runs every long test once, adds figures up, and leaves no process behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripts.run_tests import OTHERS, OVER_CONNECT, SPARK, WITH_SPARK, run
from scripts.torture_parts import LONG as LONG_MARK
from scripts.torture_parts import PARTS, ROOT, Part, files_of
from scripts.torture_parts import SHORT as SHORT_MARK
from scripts.torture_running import Group, Outcome, run_part
from scripts.torture_table import added_up, exit_code, markdown, not_run
from scripts.torture_tools import missing, run_quietly, why_not

from tests.torture.processes import wait_until

LONG = re.compile(r"mark\.torture\b")
LONG_PARTS = [part for part in PARTS if part.marks is None]


def test_every_long_test_belongs_to_a_part():
    files = {file for part in LONG_PARTS for file in files_of(PARTS)[part.name]}

    long = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("test_*.py")
        if LONG.search(file.read_text()) and file.name != Path(__file__).name
    }

    assert long - files == set()


def test_no_file_is_in_two_parts():
    files = [file for part in LONG_PARTS for file in files_of(PARTS)[part.name]]

    assert len(files) == len(set(files))


def test_every_short_test_is_run_with_every_choice():
    every = {str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")}
    marks = {part.marks: set(files_of(PARTS)[part.name]) for part in PARTS if part.marks}

    assert marks == {f"not spark and {SHORT_MARK}": every, f"spark and {SHORT_MARK}": every}


def test_a_part_is_counted_with_its_faults_and_skips(tmp_path):
    file = tmp_path / "test_some.py"
    file.write_text(
        "import pytest\ndef test_good(): pass\ndef test_bad(): assert False\n"
        "@pytest.mark.skip(reason='not here')\ndef test_other(): pass\n"
    )
    part = Part(name="some", tests=(), processes=0)

    outcome = run_part(part, [str(file)], place=tmp_path, marker="not torture", variables={})

    assert (outcome.tests, outcome.failed, outcome.skipped) == (3, 1, ("not here",))
    assert not outcome.is_good


def test_all_that_a_group_started_ends_with_it(tmp_path):
    inner = "import time; time.sleep(600)"
    script = (
        "import subprocess, sys, pathlib\n"
        f"each = subprocess.Popen([sys.executable, '-c', {inner!r}])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(each.pid))\n"
    )
    told = tmp_path / "pid"

    Group([sys.executable, "-c", script, str(told)], log=tmp_path / "log").wait(30)

    pid = int(told.read_text())
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def test_a_group_that_takes_too_long_is_ended(tmp_path):
    group = Group([sys.executable, "-c", "import time; time.sleep(600)"], log=tmp_path / "log")
    began = time.monotonic()

    assert group.wait(0.1) != 0

    assert time.monotonic() - began < 60


def test_a_part_of_which_all_is_skipped_while_it_is_read_was_not_run(tmp_path):
    file = tmp_path / "test_some.py"
    file.write_text("import pytest\npytest.skip('no Spark', allow_module_level=True)\n")
    part = Part(name="some", tests=(), processes=0)

    outcome = run_part(part, [str(file)], place=tmp_path, marker=LONG_MARK, variables={})

    assert outcome.is_good
    assert not outcome.was_run


def test_figures_are_added_up_and_shown(tmp_path):
    file = tmp_path / "figures"
    file.write_text('{"part": "a", "rounds": 2}\n{"part": "a", "rounds": 3, "seeds": 1}\n')
    outcome = Outcome(name="kills", tests=4, seconds=90, figures=added_up(file))

    table = markdown([outcome, Outcome(name="clock", reason="no faketime")])

    assert "| kills | 4 | 5 rounds, 1 seeds | 1.5 | passed |" in table
    assert "| clock | 0 |  | 0.0 | not run: no faketime |" in table
    assert "nothing found; not run: clock" in table


def test_a_part_that_was_not_run_fails_the_whole_unless_that_is_allowed():
    passed = Outcome(name="kills", tests=1)
    absent = Outcome(name="clock", reason="no faketime")

    assert exit_code([passed], allow_skips=False) == 0
    assert exit_code([passed, absent], allow_skips=False) == 1
    assert exit_code([passed, absent], allow_skips=True) == 0
    assert exit_code([passed, Outcome(name="disk", tests=1, failed=1)], allow_skips=True) == 1


def test_a_part_whose_tests_all_skipped_was_not_run():
    skipped = Outcome(name="network", tests=2, skipped=("no nft", "no nft"))
    some = Outcome(name="fuzz", tests=2, skipped=("no atheris",))

    assert not_run([skipped, some]) == ["network"]
    assert skipped.result == "not run: no nft"
    assert some.result == "passed, 1 skipped: no atheris"


@pytest.mark.parametrize(("marker", "failed"), [(LONG_MARK, 1), (SHORT_MARK, 0)])
def test_a_part_without_a_long_test_is_a_fault(tmp_path, marker, failed):
    (tmp_path / "test_some.py").write_text("def not_a_test(): pass\n")
    part = Part(name="some", tests=(), processes=0)
    files = [str(tmp_path / "test_some.py")]

    outcome = run_part(part, files, place=tmp_path, marker=marker, variables={})

    assert (outcome.failed, outcome.tests) == (failed, 0)
    assert "there are no such tests" in outcome.result


def test_a_command_that_fails_or_hangs_is_told():
    assert run_quietly(["true"])
    assert not run_quietly(["false"])
    assert not run_quietly(["sleep", "600"], within_s=0.1)


def test_tools_that_are_missing_are_named():
    assert missing(("sh", "no-such-program")) == ("no-such-program",)
    assert why_not(()) == ""
    assert bool(why_not(("mount",))) == (os.geteuid() != 0 or bool(missing(("mount",))))


def test_the_tests_of_spark_are_all_where_they_are_looked_for():
    needs = re.compile(r"mark\.spark\b|[(,] *spark[,):]")
    found = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("test_*.py")
        if needs.search(file.read_text()) and file != Path(__file__)
    }

    assert {name for name in found if not name.startswith((*WITH_SPARK, "tests/interop"))} == set()


def exiting(code):
    return (sys.executable, "-c", f"import sys; print('ended with', {code}); sys.exit({code})")


@pytest.mark.parametrize("codes", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 5, 0)])
def test_the_short_tests_fail_if_any_part_of_them_fails(codes, capfd):
    others, spark, over_connect = map(exiting, codes)

    code = run(others=others, spark=spark, over_connect=over_connect)

    assert code == int(any(codes))
    assert f"ended with {codes[1]}" in capfd.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        (*OTHERS, "tests/test_package.py"),
        (*SPARK, "tests/engines/spark/test_batch_source.py"),
        OVER_CONNECT,
    ],
    ids=["others", "spark", "over connect"],
)
def test_each_part_of_the_short_tests_finds_tests(command):
    found = subprocess.run([*command, "--collect-only"], cwd=ROOT, check=False, capture_output=True)

    assert found.returncode == 0, found.stdout[-2000:]


def test_no_part_of_the_short_tests_outlives_an_interrupt(tmp_path):
    script = (
        "import signal, sys, scripts.run_tests as tests\n"
        "slow = (sys.executable, '-c', 'import os, pathlib, sys, time;"
        " pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)')\n"
        "tests.OTHERS, tests.SPARK = (*slow, sys.argv[1]), (*slow, sys.argv[2])\n"
        "sys.exit(tests.main())\n"
    )
    told = [tmp_path / "others", tmp_path / "spark"]
    command = [sys.executable, "-c", script, *map(str, told)]
    started = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_until(lambda: all(each.exists() and each.read_text() for each in told))

    started.send_signal(signal.SIGTERM)

    assert started.wait(60) == 130
    assert not any(is_running(int(each.read_text())) for each in told)
