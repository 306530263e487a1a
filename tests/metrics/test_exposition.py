"""Declared metrics as Prometheus reads them."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headwater.metrics.exposition import (
    METRICS,
    REQUEST_SECONDS,
    REQUESTS,
    SYNC_SECONDS,
    TABLES,
    TIERING_LAG,
    Exposition,
    Spread,
    Values,
    value,
)
from headwater.metrics.tallies import BOUNDS_S, AuditTally, Durations, RequestTally

FETCH = 1015


def shown(*readings):
    """Return name, labels and value of everything of ours that is shown."""
    text = Exposition(lambda: readings).text().decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("headwater_")
    }


def test_names_are_said_once_and_end_in_their_unit():
    names = [each.name for each in METRICS]

    assert len(set(names)) == len(names) > 30
    assert all(name.startswith("headwater_") for name in names)
    assert all(each.help.endswith(".") for each in METRICS)
    assert not any(name.endswith("_total") for name in names)


def test_counters_are_shown_as_totals_and_gauges_as_they_are():
    readings = (value(TABLES, 3), Values(REQUESTS, {("FETCH_LOG", "0"): 7}))

    assert shown(*readings) == {
        ("headwater_tables",): 3,
        ("headwater_requests_total", "FETCH_LOG", "0"): 7,
    }


def test_names_of_tables_cannot_break_the_text():
    names = ('a"b\\', "c\nd")

    assert shown(Values(TIERING_LAG, {names: 5})) == {("headwater_tiering_lag_rows", *names): 5}


@given(st.lists(st.floats(0, 100), max_size=30))
def test_a_histogram_counts_each_duration_in_every_step_that_holds_it(seconds):
    durations = Durations()
    for each in seconds:
        durations.add(each)

    steps = shown(Spread(SYNC_SECONDS, {(): durations}))

    for bound in BOUNDS_S:
        expected = sum(each <= bound for each in seconds)
        assert steps["headwater_sync_seconds_bucket", str(bound)] == expected
    assert steps["headwater_sync_seconds_bucket", "+Inf"] == len(seconds) == durations.count
    assert steps["headwater_sync_seconds_count",] == len(seconds)


def test_a_histogram_has_its_steps_for_each_label():
    tally = RequestTally()
    tally.durations[FETCH].add(0.002)
    spread = {("FETCH_LOG",): tally.durations[FETCH], ("LOOKUP",): Durations()}

    steps = shown(Spread(REQUEST_SECONDS, spread))

    assert steps["headwater_request_seconds_count", "FETCH_LOG"] == 1
    assert steps["headwater_request_seconds_count", "LOOKUP"] == 0


def test_answers_are_told_from_errors():
    tally = RequestTally()
    for code in (0, 0, 7, 7, 7, -1):
        tally.durations[FETCH].add(0.002)
        if code:
            tally.refused(FETCH, code)
    tally.durations[FETCH + 1].add(0.1)

    assert tally.answers() == {(FETCH, 0): 2, (FETCH, 7): 3, (FETCH, -1): 1, (FETCH + 1, 0): 1}


def test_two_servers_of_one_process_share_nothing():
    first, second = Exposition(lambda: [value(TABLES, 1)]), Exposition(list)

    assert b"headwater_tables 1.0" in first.text()
    assert b"headwater_tables" not in second.text()
    assert b"process_open_fds" in first.text()
    assert b"process_resident_memory_bytes" in second.text()


def test_an_audit_that_never_ran_is_neither_clean_nor_failed():
    audit = AuditTally()

    assert (audit.is_clean, audit.failure) == (False, "")
