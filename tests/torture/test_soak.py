"""A soak notices what ends, what stands still, what grows, and what it hardly looked at."""

import random

import pytest
from scripts.soak import ended
from scripts.soak_judge import (
    JUDGED_S_MIN,
    ROOM,
    SAMPLE_S,
    Point,
    Room,
    grown,
    hardly_seen,
    is_long_enough,
    slope,
    stalled,
)

from tests.torture.processes import Process, wait_until

HOUR_S = 3600.0
COUNTED = Room(1.0)


def series(value_at, *, seconds: float = HOUR_S) -> list[Point]:
    """Return what is measured of something whose value is known at each moment."""
    moments = [SAMPLE_S * number for number in range(1, int(seconds / SAMPLE_S) + 1)]
    return [Point(at_s, value_at(at_s)) for at_s in moments]


def noisy(value_at, *, by: float):
    luck = random.Random(7)
    return lambda at_s: value_at(at_s) + luck.uniform(-by, by)


@pytest.mark.parametrize(
    ("kind", "per_hour", "noise"),
    [("rss_mib", 50.0, 12.0), ("rss_mib", 35.0, 12.0), ("descriptors", 3.0, 2.0)],
)
def test_a_slow_leak_is_found_in_noise(kind, per_hour, noise):
    leak = series(noisy(lambda at_s: 180.0 + per_hour * at_s / HOUR_S, by=noise))

    assert grown(leak, "memory", ROOM[kind]).startswith("memory grew by ")


def test_a_leak_of_whole_threads_is_found():
    leak = series(lambda at_s: 9 + int(6 * at_s / HOUR_S))

    assert grown(leak, "threads", ROOM["threads"])


@pytest.mark.parametrize(("kind", "noise"), [("rss_mib", 20.0), ("descriptors", 4.0)])
def test_noise_is_no_growth(kind, noise):
    assert not grown(series(noisy(lambda _: 180.0, by=noise)), kind, ROOM[kind])


def test_a_step_while_all_is_warming_up_is_no_growth():
    assert not grown(series(lambda at_s: 100.0 if at_s < 800 else 180.0), "memory", COUNTED)


def test_single_peaks_are_no_growth():
    assert not grown(series(lambda at_s: 500.0 if at_s % 600 == 0 else 40.0), "memory", COUNTED)


def test_a_short_soak_says_nothing_of_growth():
    leak = series(lambda at_s: at_s, seconds=JUDGED_S_MIN - SAMPLE_S)

    assert not grown(leak, "memory", COUNTED)
    assert not is_long_enough(leak[-1].at_s)
    assert not grown([], "memory", COUNTED)


def test_a_slope_needs_two_points_and_takes_many():
    assert slope([Point(1.0, 5.0)]) == 0.0
    assert slope(series(lambda at_s: 2 * at_s, seconds=10 * HOUR_S)) == pytest.approx(2.0)


def test_a_lake_that_stands_still_in_the_last_quarter_is_told():
    stopped = series(lambda at_s: min(at_s, 2600.0))

    assert stalled(stopped, "the lake").startswith("the lake stands at 2600 since ")
    assert not stalled(series(lambda at_s: at_s), "the lake")


def test_a_lake_that_never_began_is_told_once_it_had_the_time():
    assert stalled(series(lambda _: 0.0, seconds=240), "the lake")
    assert not stalled(series(lambda _: 0.0, seconds=60), "the lake")


def test_less_than_half_of_samples_or_audits_is_too_few():
    assert hardly_seen(HOUR_S, samples=360, audits=60) == []
    assert hardly_seen(HOUR_S, samples=180, audits=30) == []
    assert hardly_seen(HOUR_S, samples=179, audits=60) == ["only 179 samples in 3600 s"]
    assert hardly_seen(HOUR_S, samples=360, audits=29) == ["only 29 audits in 3600 s"]


def test_a_process_that_ended_is_told_with_its_code_and_its_words(tmp_path):
    process = Process("tests.torture.no_such_module", log=tmp_path / "log")
    wait_until(lambda: not process.is_running)

    told = ended("tierer", process)

    assert told.startswith("the tierer ended with exit code 1: ")
    assert "No module named" in told
    process.stop(expect=(1,))
