"""What is not durable yet is known, so that nobody is shown it."""

import numpy as np

from headwater.kv.heap import ABSENT, base_location
from headwater.tablet.state_read import DURABLE, Unsynced

FIRST = base_location(1, 3) + 32


def offset_for(unsynced, *locations):
    return unsynced.offset_for(np.array(locations, np.int64))


def test_everything_is_durable_at_first():
    assert offset_for(Unsynced(), FIRST, ABSENT) == DURABLE


def test_a_row_is_not_durable_before_its_changelog():
    unsynced = Unsynced()

    unsynced.note(7, location=FIRST, size=100, removes=False)

    assert offset_for(unsynced, FIRST) == offset_for(unsynced, FIRST + 99) == 7
    assert offset_for(unsynced, FIRST + 100) == offset_for(unsynced, FIRST - 1) == DURABLE


def test_the_schema_of_a_row_does_not_matter():
    unsynced = Unsynced()

    unsynced.note(7, location=FIRST, size=100, removes=False)

    assert offset_for(unsynced, base_location(2, 3) + 32) == 7
    assert offset_for(unsynced, base_location(1, 4) + 32) == DURABLE


def test_a_missing_key_waits_for_removals_only():
    unsynced = Unsynced()
    unsynced.note(7, location=FIRST, size=100, removes=False)

    assert offset_for(unsynced, ABSENT) == DURABLE
    unsynced.note(9, location=0, size=0, removes=True)
    assert offset_for(unsynced, ABSENT) == 9


def test_the_latest_offset_counts():
    unsynced = Unsynced()
    unsynced.note(7, location=FIRST, size=100, removes=False)
    unsynced.note(9, location=FIRST + 100, size=100, removes=False)

    assert offset_for(unsynced, FIRST, FIRST + 150) == unsynced.end_offset == 9


def test_a_sync_makes_durable_what_came_before_it():
    unsynced = Unsynced()
    unsynced.note(7, location=FIRST, size=100, removes=True)
    unsynced.note(9, location=FIRST + 100, size=100, removes=False)

    unsynced.forget(7)

    assert offset_for(unsynced, FIRST, ABSENT) == DURABLE
    assert offset_for(unsynced, FIRST + 100) == 9


def test_one_row_may_be_shown_where_many_would_not_wait():
    unsynced = Unsynced()
    unsynced.note(7, location=FIRST, size=100, removes=True)
    unsynced.note(9, location=FIRST + 100, size=100, removes=False)

    for location in (FIRST - 1, FIRST, FIRST + 99, FIRST + 100, FIRST + 199, FIRST + 200, ABSENT):
        for synced_offset in (0, 6, 7, 8, 9, 10):
            expected = offset_for(unsynced, location) <= synced_offset
            assert unsynced.shows(location, synced_offset=synced_offset) == expected
