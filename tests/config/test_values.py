"""Reading durations, sizes, zones and words."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headwater.config.options import TimeUnit
from headwater.config.values import (
    LONG_MAX,
    choice,
    read_boolean,
    read_bytes,
    read_duration_ms,
    read_names,
    read_text,
    read_zone,
    whole_number,
)
from tests.cases import cases

DAY_MS = 86_400_000


@cases(
    ("text", "milliseconds"),
    [
        ("7 d", 7 * DAY_MS),
        ("7days", 7 * DAY_MS),
        ("10min", 600_000),
        ("2 H", 7_200_000),
        ("0ms", 0),
        (" 15 s ", 15_000),
        ("1500 micros", 1),
        ("3 m", 180_000),
    ],
)
def test_a_duration_is_read_in_milliseconds(text, milliseconds):
    assert read_duration_ms(text) == milliseconds


@cases("text", ["", "7", "d", "-1 d", "1.5 h", "7 fortnights", "9" * 30 + " d"])
def test_a_malformed_duration_is_refused(text):
    assert read_duration_ms(text) is None


@given(
    st.integers(0, 10**9), st.sampled_from(["ms", "s", "min", "h", "d"]), st.text(" ", max_size=3)
)
def test_a_duration_written_with_its_unit_is_read_back(number, unit, gap):
    unit_ms = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": DAY_MS}[unit]

    assert read_duration_ms(f"{number}{gap}{unit}") == number * unit_ms


@given(st.text())
def test_no_text_breaks_a_reader(text):
    for read in (read_duration_ms, read_bytes, read_boolean, read_names, read_text, read_zone):
        read(text)


@cases(("text", "size"), [("10 b", 10), ("1kb", 1024), ("512 MB", 512 << 20), ("1g", 1 << 30)])
def test_a_memory_size_is_read_in_bytes(text, size):
    assert read_bytes(text) == size


@cases("text", ["", "10", "-1 kb", "1 pb", f"{LONG_MAX} kb"])
def test_a_malformed_memory_size_is_refused(text):
    assert read_bytes(text) is None


@cases(("text", "hours"), [("+08:00", 8), ("GMT-3", -3), ("UTC+0530", 5.5)])
def test_a_fixed_zone_is_a_distance_from_utc(text, hours):
    zone = read_zone(text)

    assert zone is not None
    assert zone.utcoffset(None) == timedelta(hours=hours)


def test_a_named_zone_knows_its_summer_time():
    zone = read_zone("Europe/Berlin")

    assert datetime(2024, 7, 1, tzinfo=UTC).astimezone(zone).hour == 2


@cases(
    "text",
    ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "a\0b", "x" * 9999, "+99"],
)
def test_a_zone_that_does_not_exist_is_refused(text):
    assert read_zone(text) is None


@cases("text", ["a,,b", "a,a", "", ","])
def test_a_list_of_names_has_no_gaps_and_no_repeats(text):
    assert read_names(text) is None


def test_names_lose_the_blanks_around_them():
    assert read_names(" a, b ") == ("a", "b")


def test_words_and_booleans_are_read_in_any_case():
    assert choice(TimeUnit).read("Hour") is TimeUnit.HOUR
    assert choice(TimeUnit).read("week") is None
    assert read_boolean("TRUE") is True
    assert read_boolean("1") is None


@cases(("text", "number"), [("1", 1), ("+3", 3), ("0", None), ("4", None), ("x", None)])
def test_a_whole_number_stays_within_its_bounds(text, number):
    assert whole_number(low=1, high=3).read(text) == number
