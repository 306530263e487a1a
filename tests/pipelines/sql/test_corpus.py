"""Every statement of the corpus is planned, or refused with its reason, in both modes."""

import re

from headwater.errors import StatementError
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.plan import plan
from headwater.pipelines.sql.statements import InsertStatement
from headwater.pipelines.sql.steps import (
    InsertRows,
    InsertRowsSet,
    LookupJoin,
    Plan,
    ReadTable,
    ShowRows,
    SqlView,
)
from tests.cases import cases
from tests.pipelines.sql.corpus import MODES, NEXMARK, entries, names_for, nexmark_names

NAMES = {mode: names_for(mode) for mode in MODES}


def planned(entry) -> Plan:
    (statement,) = parse(entry.text)
    return plan(statement, NAMES[entry.mode])


def outcome(found: Plan) -> str:
    action = found.action
    if isinstance(action, InsertRowsSet):
        return "set"
    assert isinstance(action, ShowRows | InsertRows)
    return "changes" if action.has_changes and action.mode == "append" else str(action.mode)


@cases("entry", entries(refused=False))
def test_a_statement_is_planned_in_the_mode_that_is_written_above_it(entry):
    found = planned(entry)

    if entry.kind:
        assert outcome(found) == entry.kind
    elif isinstance(found.action, ShowRows | InsertRows):
        assert found.action.mode == "append"
        assert not found.action.has_changes


@cases("entry", entries(refused=True))
def test_a_statement_is_refused_for_the_reason_that_is_written_above_it(entry):
    try:
        told = f"planned: {planned(entry)}"
    except StatementError as error:
        told = str(error)

    assert entry.words in told
    assert "^" in told


@cases("entry", entries(refused=False))
def test_every_view_is_made_from_the_ones_before_it(entry):
    made: set[str] = set()
    for step in planned(entry).views:
        if isinstance(step, LookupJoin):
            assert step.probe in made
        if isinstance(step, SqlView):
            assert set(re.findall(r"\bhw_\d+_\w+", step.sql)) <= made
        made.add(step.view)


@cases("entry", entries(refused=False))
def test_only_a_streaming_mode_reads_streams(entry):
    reads = [each for each in planned(entry).views if isinstance(each, ReadTable)]

    if entry.mode == "batch" and "FRESHNESS" not in entry.text:
        assert not any(each.is_streaming for each in reads)


def test_a_plan_is_the_same_every_time_and_leaves_its_statement_alone():
    for entry in entries(refused=False):
        (statement,) = parse(entry.text)

        first = plan(statement, NAMES[entry.mode], label="a")

        assert plan(statement, NAMES[entry.mode], label="a") == first


NEXMARK_REFUSED = {"q4": "Spark cannot aggregate results that still change"}


@cases("mode", MODES)
def test_nexmark_is_planned_except_for_what_a_stream_cannot_do(mode):
    names = nexmark_names(mode)
    refused = {}

    for statement in parse((NEXMARK / "queries.sql").read_text()):
        if isinstance(statement, InsertStatement):
            try:
                plan(statement, names)
            except StatementError as error:
                refused[statement.table[0]] = error.message

    expected = NEXMARK_REFUSED if mode == "streaming" else {}
    assert set(refused) == set(expected)
    assert all(expected[each] in refused[each] for each in refused)
