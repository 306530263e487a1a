"""Every path stays short, and ARCHITECTURE.md and CONTRIBUTING.md say what the code is like."""

import pytest
from scripts.generate_architecture import (
    ARCHITECTURE,
    CONTRIBUTING,
    PACKAGE,
    between,
    layer_list,
    layer_table,
    named_files,
    way_files,
)
from scripts.trace_paths import Trace, recording, traced_paths

from headwater.rows.columns import chosen

# The most calls and files of ours that a path may take. Lower them when a path gets shorter.
BUDGETS = {
    "get": (60, 23),
    "get, served": (135, 32),
    "append": (140, 30),
    "append, served": (250, 42),
    "upsert": (220, 46),
    "upsert, served": (320, 56),
    "lookup of 100 keys": (1_020, 43),
    "scan of a log": (640, 51),
    "scan by key": (440, 55),
    "union read": (940, 63),
    "union read by key": (800, 65),
}
# The share of the files of a path that may differ from the page until it has to be renewed.
STALE_SHARE_MAX = 0.1


@pytest.fixture(scope="module")
def paths() -> dict[str, Trace]:
    return traced_paths()


def test_no_path_takes_more_calls_or_files_than_its_budget(paths):
    over = {
        name: f"{paths[name].calls} calls, {len(paths[name].files)} files; budget {calls}, {files}"
        for name, (calls, files) in BUDGETS.items()
        if paths[name].calls > calls or len(paths[name].files) > files
    }

    assert over == {}


def test_the_paths_in_the_architecture_are_current(paths):
    named = named_files(ARCHITECTURE.read_text())

    stale = {
        name: sorted(named.get(name, set()) ^ set(way_files(trace)))
        for name, trace in paths.items()
        if len(named.get(name, set()) ^ set(way_files(trace)))
        > STALE_SHARE_MAX * len(way_files(trace))
    }

    assert stale == {}, "run `make docs`"
    assert set(named) == set(paths), "run `make docs`"


def test_every_file_that_a_path_names_exists():
    named = set().union(*named_files(ARCHITECTURE.read_text()).values())

    assert [name for name in named if not (PACKAGE / f"{name}.py").is_file()] == []


def test_the_layers_in_the_pages_are_those_of_the_contract():
    assert between(CONTRIBUTING.read_text(), "layers") == layer_list(), "run `make docs`"
    assert between(ARCHITECTURE.read_text(), "layers") == layer_table(), "run `make docs`"


def test_a_trace_counts_calls_of_ours_and_no_others():
    with recording() as recorder:
        nothing = recorder.trace(lambda: sorted([2, 1]))
        two = recorder.trace(lambda: (chosen("a"), chosen(None)))

    assert nothing == Trace(0, ())
    assert two == Trace(3, ("rows/columns",))  # one of the two asks another function
