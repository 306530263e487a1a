"""What a read tells of itself."""

import json
from dataclasses import replace

from headwater.model.boundary import LakeBucket
from headwater.read.explain import LINES_MAX, bytes_text, explained, moment_text, seconds_text
from headwater.read.filters import Filter
from headwater.read.plan import ReadSelection, plan_read
from headwater.read.token import token_text
from tests.cases import cases
from tests.client.union.values import NOW_MS, bounds, file, split, view

TEXT = """\
table  app.events (schema 1): id, amount
where  id > 120 and day >= '2026-11-15'
fresh  as of 2027-01-15T08:00:00.000Z, 0.312 s ago
lake   iceberg snapshot 12, 60.3 s old; alone it is 48.2 s behind
files  4 files, at most 12.3 MB to read, 40,000 rows
logs   10,000 offsets of 1 log, the rows of 1 bucket as servers tell them

partition   bucket  tiers     files    rows     size  offsets          count
2026-11-15       0  HYBRID        4  40,000  12.3 MB  40000 to 50000  10,000
2026-11-16       0  LOG_ONLY                          state at 5

left out
  partition 2026-11-14                          50,000 rows  15.4 MB  day >= '2026-11-15'
  file …/0 of bucket 0 of partition 2026-11-15  10,000 rows  3.08 MB  id in [0, 99]"""


def explanation(seen, lake=(), *, where=None, lag_s=48.2, **selection):
    wanted = None if where is None else Filter.of(where, seen.table.schema)
    plan = plan_read(seen, lake, ReadSelection(filter=wanted, **selection))
    return explained(
        seen, plan, columns=("id", "amount"), lag_s=lag_s, now_ms=NOW_MS + 312, filter=wanted
    )


def hybrid():
    seen = view(
        {LakeBucket(8, 0): (0, 50_000), LakeBucket(9, 0): (0, 5)},
        {LakeBucket(8, 0): (0, 40_000)},
        partitions={8: "2026-11-15", 9: "2026-11-16"},
        is_keyed=True,
    )
    files = [
        file(f"/x/{at}", row_count=10_000, byte_count=3_080_000, bounds=(bounds(0, at, at + 99),))
        for at in range(0, 500, 100)
    ]
    lake = [split(0, files, day=day) for day in ("2026-11-14", "2026-11-15")]
    return explanation(seen, lake, where=[("id", ">", 120), ("day", ">=", "2026-11-15")])


def test_the_text_tells_what_is_read_and_what_is_not():
    assert str(hybrid()) == TEXT


def test_the_document_holds_everything():
    node = json.loads(json.dumps(hybrid().to_json()))

    assert node["version"] == 1
    assert node["snapshot"] == {
        "format": "iceberg",
        "snapshot_id": 12,
        "committed_ms": NOW_MS - 60_000,
        "age_s": 60.312,
    }
    assert node["freshness"]["lake_lag_s"] == 48.2
    assert node["total"]["offsets"] == 10_000
    assert [each["tiers"] for each in node["buckets"]] == [["HYBRID"], ["LOG_ONLY"]]
    assert node["buckets"][0]["log"] == {"start": 40_000, "end": 50_000}
    assert [each["rows"] for each in node["pruned"]] == [50_000, 10_000]


def test_the_document_holds_the_token_of_the_view():
    seen = view({0: (0, 9)})

    assert explanation(seen).to_json()["token"] == token_text(seen)


def test_lake_and_log_of_a_bucket_stand_in_one_line():
    found = explanation(view({0: (0, 9)}, {0: (0, 4)}), [split(0)])

    assert [each.tiers for each in found.buckets] == [("LAKE_ONLY", "LOG_ONLY")]
    assert "LAKE_ONLY + LOG_ONLY" in str(found)


def test_a_log_that_is_cut_into_splits_is_one_range():
    (only,) = explanation(view({0: (3, 30)}), split_rows=10).buckets

    assert (only.split_count, only.log.start, only.log.end, only.offset_count) == (3, 3, 30, 27)


def test_a_lake_that_holds_everything_is_not_behind():
    found = explanation(view({0: (0, 4)}, {0: (0, 4)}), [split(0)], lag_s=0.0)

    assert "it holds everything" in str(found)


def test_without_a_lake_there_is_no_lag():
    found = explanation(view({0: (0, 4)}))

    assert found.lake_lag_s is None
    assert "behind" not in str(found)


def test_the_moment_that_was_asked_for_is_told():
    seen = replace(view({0: (0, 4)}), is_newest=False, as_of_ms=NOW_MS - 3_600_000)

    found = explanation(seen)

    assert "fresh  as of 2027-01-15T07:00:00.000Z, as asked\n" in str(found)
    assert found.to_json()["freshness"]["as_of_ms"] == NOW_MS - 3_600_000


def test_another_position_is_told_with_when_it_was_looked_up():
    found = explanation(replace(view({0: (0, 4)}), is_newest=False))

    assert "at the position that was asked for, looked up at 2027-01-15T08" in str(found)
    assert found.to_json()["freshness"]["as_of_ms"] is None


def test_nothing_to_read_is_told():
    assert "nothing is read" in str(explanation(view({0: (0, 0)})))


def test_many_buckets_do_not_fill_the_screen():
    seen = view(dict.fromkeys(range(LINES_MAX + 1000), (0, 5)))

    lines = str(explanation(seen)).splitlines()

    assert lines[-1] == "… and 1,000 more"
    assert len(lines) < LINES_MAX + 10


@cases(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999999, "1 MB"),
        (10**6, "1 MB"),
        (1234567, "1.23 MB"),
        (5 * 10**18, "5000 PB"),
    ],
)
def test_bytes_are_told_in_three_digits(count, text):
    assert bytes_text(count) == text


@cases(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.0123, "0.0123 s"),
        (119.7, "120 s"),
        (600, "10 min"),
        (7300, "2 h"),
        (10**6, "12 days"),
    ],
)
def test_times_are_told_in_the_unit_that_people_use(seconds, text):
    assert seconds_text(seconds) == text


def test_moments_are_told_in_utc():
    assert moment_text(NOW_MS + 7) == "2027-01-15T08:00:00.007Z"
