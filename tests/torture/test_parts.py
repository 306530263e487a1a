"""`make torture` runs every long test once, adds figures up, and leaves no process behind."""

import os
import re
import sys
import time
from pathlib import Path

from scripts.soak import SAMPLES_MIN, grown
from scripts.torture_parts import PARTS, ROOT, Part, files_of
from scripts.torture_running import Group, Outcome, run_part
from scripts.torture_table import added_up, markdown
from scripts.torture_tools import missing, why_not

from tests.torture.processes import wait_until

LONG = re.compile(r"mark\.torture\b")


def test_every_long_test_belongs_to_a_part():
    files = {file for each in files_of(PARTS).values() for file in each}

    long = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("test_*.py")
        if LONG.search(file.read_text()) and file.name != Path(__file__).name
    }

    assert long - files == set()


def test_no_file_is_in_two_parts():
    files = [file for each in files_of(PARTS).values() for file in each]

    assert len(files) == len(set(files))


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


def test_figures_are_added_up_and_shown(tmp_path):
    file = tmp_path / "figures"
    file.write_text('{"part": "a", "rounds": 2}\n{"part": "a", "rounds": 3, "seeds": 1}\n')
    outcome = Outcome(name="kills", tests=4, seconds=90, figures=added_up(file))

    table = markdown([outcome, Outcome(name="clock", reason="no faketime")])

    assert "| kills | 4 | 5 rounds, 1 seeds | 1.5 | passed |" in table
    assert "| clock | 0 |  | 0.0 | skipped: no faketime |" in table
    assert "nothing found" in table


def test_tools_that_are_missing_are_named():
    assert missing(("sh", "no-such-program")) == ("no-such-program",)
    assert why_not(()) == ""
    assert bool(why_not(("mount",))) == (os.geteuid() != 0 or bool(missing(("mount",))))


def test_growth_is_told_and_noise_is_not():
    flat = [100.0 + number % 3 for number in range(4 * SAMPLES_MIN)]
    leak = [100.0 + number for number in range(4 * SAMPLES_MIN)]

    assert not grown(flat, "memory", 1.0)
    assert grown(leak, "memory", 1.0).startswith("memory grew from ")
    assert not grown(leak[: SAMPLES_MIN - 1], "memory", 1.0), "that soon nothing is told"
