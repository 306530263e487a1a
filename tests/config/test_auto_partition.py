"""Partitions that come and go with time."""

import os
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.config.auto_partition import (
    FIELDS,
    AutoPartition,
    TimeFormat,
    check_partition_time,
    custom_format,
    default_format,
    format_in,
    format_to_take,
    partitions_to_create,
    partitions_to_drop,
)
from headwater.config.options import TimeUnit
from headwater.config.table_options import TableOptions
from headwater.errors import InvalidOptionError, InvalidPartitionError
from tests.cases import cases


def ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)


NOON = ms(2024, 11, 11, 12, 30)


def rules(**settings: str) -> AutoPartition:
    given = {
        f"table.auto-partition.{key.replace('_', '-')}": text for key, text in settings.items()
    }
    defaults = {
        "table.auto-partition.enabled": "true",
        "table.auto-partition.time-zone": "UTC",
    }
    return TableOptions.of({**defaults, **given}).auto_partition


def created(auto: AutoPartition, now_ms: int = NOON, existing=()) -> tuple[str, ...]:
    return partitions_to_create(auto, keys=["dt"], existing=existing, now_ms=now_ms)


def dropped(auto: AutoPartition, existing, now_ms: int = NOON, keys=("dt",)) -> tuple[str, ...]:
    return partitions_to_drop(auto, keys=keys, existing=existing, now_ms=now_ms)


@cases(
    ("unit", "names"),
    [
        ("HOUR", ("2024111112", "2024111113", "2024111114")),
        ("DAY", ("20241111", "20241112", "20241113")),
        ("MONTH", ("202411", "202412", "202501")),
        ("QUARTER", ("20244", "20251", "20252")),
        ("YEAR", ("2024", "2025", "2026")),
    ],
)
def test_partitions_are_created_from_the_current_unit_on(unit, names):
    assert created(rules(time_unit=unit, num_precreate="3")) == names


def test_the_end_of_a_short_month_does_not_skip_a_month():
    now_ms = ms(2023, 1, 31)

    assert created(rules(time_unit="MONTH"), now_ms) == ("202301", "202302")


def test_partitions_that_exist_are_not_created_again():
    assert created(rules(), existing=("20241111",)) == ("20241112",)


@cases(("retention", "kept"), [("2", "20241109"), ("0", "20241111")])
def test_retention_keeps_that_many_units_before_the_current_one(retention, kept):
    days = [f"202411{day:02}" for day in range(1, 13)]

    gone = dropped(rules(num_retention=retention), days)

    assert gone == tuple(day for day in days if day < kept)


def test_a_negative_retention_keeps_everything():
    assert dropped(rules(num_retention="-1"), ["19700101"]) == ()


@cases("unit", list(TimeUnit))
def test_a_retention_before_the_calendar_keeps_everything(unit):
    auto = replace(rules(time_unit=unit), retention_count=2**31 - 1)

    assert dropped(auto, [default_format(unit).write(datetime(1, 1, 1, tzinfo=UTC))]) == ()


@cases("name", ["apple", "2024-01-01", "20241", "20240231", "00000101", "", "a$b"])
def test_values_that_are_no_time_are_left_alone(name):
    assert dropped(rules(), [name]) == ()


def test_a_table_with_several_keys_expires_by_its_time_key_and_creates_nothing():
    auto = rules(key="dt", num_precreate="0", num_retention="1")
    names = ["us$20241109$x", "us$20241110$x", "eu$20240101$y"]

    assert dropped(auto, names, keys=("region", "dt", "kind")) == ("eu$20240101$y", "us$20241109$x")
    assert partitions_to_create(auto, keys=["region", "dt"], existing=(), now_ms=NOON) == ()


def test_nothing_happens_while_automatic_partitions_are_off():
    auto = rules(enabled="false")

    assert created(auto) == ()
    assert dropped(auto, ["19700101"]) == ()


def test_a_day_begins_in_the_zone_of_the_table():
    late_ms = ms(2024, 11, 11, 23, 30)

    assert created(rules(num_precreate="1", time_zone="Asia/Tokyo"), late_ms) == ("20241112",)
    assert created(rules(num_precreate="1", time_zone="America/New_York"), late_ms) == ("20241111",)


def test_an_hour_that_the_clock_shows_twice_is_one_partition():
    auto = rules(time_unit="HOUR", num_precreate="4", time_zone="America/New_York")

    assert created(auto, ms(2024, 11, 3, 4)) == ("2024110300", "2024110301", "2024110302")


def test_without_a_zone_the_zone_of_the_process_counts(monkeypatch):
    auto = replace(rules(num_precreate="1"), time_zone=None)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()

    names = created(auto, ms(2024, 11, 11, 23, 30))
    monkeypatch.undo()
    time.tzset()

    assert names == ("20241112",)
    assert os.environ.get("TZ") != "Asia/Tokyo"


@cases(
    ("pattern", "unit"),
    [
        ("MM-yyyy", TimeUnit.MONTH),
        ("yyyy-MM", TimeUnit.DAY),
        ("yyyy-M-dd", TimeUnit.DAY),
        ("yyyy/MM/dd", TimeUnit.DAY),
        ("yyyyMMddHHmm", TimeUnit.HOUR),
        ("'at'yyyy", TimeUnit.YEAR),
        ("[yyyy]", TimeUnit.YEAR),
        ("__yyyy", TimeUnit.YEAR),
        ("yyyy" + "-" * 400, TimeUnit.YEAR),
        ("%Y", TimeUnit.YEAR),
    ],
)
def test_a_time_format_that_does_not_order_values_by_time_is_refused(pattern, unit):
    with pytest.raises(InvalidOptionError, match="time-format"):
        custom_format(pattern, unit)


@given(st.datetimes(), st.sampled_from(list(TimeUnit)), st.sampled_from(["", "-", "_", "-_"]))
def test_a_written_time_is_read_back_as_the_start_of_its_unit(moment, unit, mark):
    time_format = custom_format(mark.join(FIELDS[unit]), unit)

    start = time_format.read(time_format.write(moment))

    assert start is not None
    assert start <= moment
    assert time_format.write(start) == time_format.write(moment)


@given(st.datetimes(), st.sampled_from(list(TimeUnit)), st.sampled_from(["", "-", "_"]))
def test_the_format_of_a_value_is_recognised(moment, unit, mark):
    time_format = custom_format(mark.join(FIELDS[unit]), unit)

    assert format_in(time_format.write(moment), unit) == time_format


@cases(
    ("text", "unit", "pattern"),
    [
        ("2026-11-18", TimeUnit.DAY, "yyyy-MM-dd"),
        ("2026-11_18", TimeUnit.DAY, "yyyy-MM_dd"),
        ("20261118-07", TimeUnit.HOUR, "yyyyMMdd-HH"),
        ("2026-11", TimeUnit.DAY, None),
        ("2026-13-01", TimeUnit.DAY, None),
        ("2026/11/18", TimeUnit.DAY, None),
        ("apple", TimeUnit.YEAR, None),
    ],
)
def test_a_value_that_is_no_time_of_the_unit_has_no_format(text, unit, pattern):
    found = format_in(text, unit)

    assert (None if found is None else found.pattern) == pattern


def test_a_table_takes_a_format_only_if_it_has_none_and_the_value_differs():
    taken = format_to_take(rules(), (("day", "2026-11-18"),))

    assert taken == TimeFormat("yyyy-MM-dd")
    assert format_to_take(rules(), (("day", "20261118"),)) is None
    assert format_to_take(rules(time_format="yyyy_MM_dd"), (("day", "2026-11-18"),)) is None
    assert format_to_take(replace(rules(), enabled=False), (("day", "2026-11-18"),)) is None


@given(st.datetimes(), st.datetimes(), st.sampled_from(list(TimeUnit)))
def test_texts_are_in_the_order_of_the_times(one, other, unit):
    time_format = default_format(unit)
    earlier, later = sorted([one, other])

    assert time_format.write(earlier) <= time_format.write(later)


@given(st.text())
def test_no_value_breaks_the_reading_of_times(text):
    TimeFormat("yyyy-MM-dd").read(text)


@given(
    st.integers(ms(1900, 1, 1), ms(2200, 1, 1)),
    st.sampled_from(list(TimeUnit)),
    st.integers(0, 50),
)
def test_what_is_created_is_not_dropped_before_its_time(now_ms, unit, retention):
    auto = replace(rules(time_unit=unit, num_precreate="5"), retention_count=retention)

    assert dropped(auto, created(auto, now_ms), now_ms) == ()


@cases("value", ["2024-11-11", "apple"])
def test_a_partition_by_hand_must_be_a_time_too(value):
    with pytest.raises(InvalidPartitionError, match="yyyyMMdd"):
        check_partition_time(rules(), spec=(("dt", value),), now_ms=NOON)


def test_a_partition_that_would_be_dropped_at_once_is_refused():
    with pytest.raises(InvalidPartitionError, match="20241104"):
        check_partition_time(rules(), spec=(("dt", "20241103"),), now_ms=NOON)


def test_a_custom_format_binds_partitions_by_hand_while_automatic_ones_are_off():
    auto = rules(enabled="false", time_format="yyyy-MM-dd")

    check_partition_time(auto, spec=(("dt", "1999-01-01"),), now_ms=NOON)
    with pytest.raises(InvalidPartitionError):
        check_partition_time(auto, spec=(("dt", "19990101"),), now_ms=NOON)
