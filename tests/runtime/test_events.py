"""Log lines: for people, and for machines."""

import json
import logging
import subprocess
import sys

from headwater.runtime.events import JsonFormat, TextFormat
from tests.cases import cases


def record(event="tiered", *, cause=None, **fields):
    made = logging.LogRecord("headwater.lake", logging.INFO, "", 0, event, (), None)
    made.fields = fields
    if cause is not None:
        made.exc_info = (type(cause), cause, cause.__traceback__)
    return made


@cases(
    ("value", "shown"),
    [
        (5, "5"),
        ("plain", "plain"),
        ("two words", '"two words"'),
        ("", '""'),
        ("a\nb", '"a\\nb"'),
        ("a\rb", '"a\\rb"'),
        ("\x1b[2Jann", '"\\u001b[2Jann"'),
        ("\x9b2J", '"\\u009b2J"'),
        ("\u202eann", '"\\u202eann"'),
        ("änn", "änn"),
    ],
)
def test_a_field_is_shown_so_that_it_can_be_read_back(value, shown):
    line = TextFormat().format(record(rows=value))

    assert line.endswith(f" lake tiered rows={shown}")
    assert "\n" not in line


def test_a_cause_brings_its_traceback():
    cause = ValueError("why")

    text = TextFormat().format(record(cause=cause))
    line = JsonFormat().format(record(cause=cause))

    assert text.endswith("ValueError: why")
    assert "ValueError: why" in json.loads(line)["trace"]
    assert "\n" not in line


def test_a_cause_that_quotes_a_stranger_moves_no_cursor():
    cause = ValueError("no user \x1b[2J\u202e\rann\n\tbut")

    text = TextFormat().format(record(cause=cause))

    assert text.endswith("ValueError: no user \\x1b[2J\\u202e\\rann\n\tbut")


def test_a_record_of_a_library_has_the_same_form():
    foreign = logging.LogRecord("asyncio", logging.WARNING, "", 0, "%s slow", ("task",), None)

    parsed = json.loads(JsonFormat().format(foreign))

    assert (parsed["component"], parsed["event"]) == ("asyncio", "task slow")


def test_what_libraries_say_is_part_of_the_log():
    program = (
        "import logging; from headwater.runtime.events import Events, configure_events;"
        "configure_events(level='DEBUG', as_json=True); Events('x').debug('mine', rows=1);"
        "logging.getLogger('asyncio').warning('theirs');"
        "logging.getLogger('asyncio').debug('noise')"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=20
    )

    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["mine", "theirs"]


def test_a_warning_is_whole_where_nobody_configured_logging():
    program = "from headwater.runtime.events import Events; Events('x').warning('late', rows=7)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=20
    )

    assert done.stderr.endswith("WARNING x late rows=7\n")
