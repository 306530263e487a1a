"""What a plan leaves out since no wanted row can be in it."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.model.arrow import arrow_schema
from headwater.model.boundary import LakeBucket
from headwater.read.filters import Filter
from headwater.read.plan import ReadSelection, plan_read
from headwater.rows.statistics import encode_statistics, parse_statistics
from tests.choices import examples
from tests.client.union.values import bounds, file, split, table, view

DAYS = {8: "b", 9: "c"}


def planned(seen, lake, where, **selection):
    wanted = Filter.of(where, seen.table.schema)
    return plan_read(seen, lake, ReadSelection(filter=wanted, **selection))


def paths(plan):
    return [each.path for one in plan.splits if one.lake for each in one.lake.files]


def told(plan):
    return [(each.what, each.why) for each in plan.pruned]


def in_lake(files, where, *, is_keyed=False):
    seen = view({0: (0, 100)}, {0: (0, 100)}, is_keyed=is_keyed)
    return planned(seen, [split(0, files)], where)


# ---- partitions and buckets


def test_partitions_are_left_out_in_lake_and_log():
    seen = view({LakeBucket(8, 0): (0, 5), LakeBucket(9, 0): (0, 6)}, {}, partitions=DAYS)

    plan = planned(seen, [split(0, day="a"), split(0, day="b")], ("day", "==", "b"))

    assert {each.partition for each in plan.splits} == {"b"}
    assert told(plan) == [("2 partitions: a, c", "day = 'b'")]
    assert (plan.pruned[0].row_count, plan.pruned[0].byte_count) == (16, 1000)


def test_buckets_are_left_out_by_their_number():
    seen = view(dict.fromkeys(range(4), (0, 5)), {})

    plan = planned(seen, [split(number) for number in range(4)], ("id", "==", 3))

    (number,) = {each.bucket for each in plan.splits}
    others = ", ".join(str(each) for each in range(4) if each != number)
    assert told(plan) == [(f"buckets {others}", f"id = 3 is in bucket {number}")]


def test_files_of_no_known_bucket_are_read_whatever_the_number():
    seen = view(dict.fromkeys(range(4), (0, 5)), {})

    plan = planned(seen, [split()], ("id", "==", 3))

    assert sorted(each.tier for each in plan.splits) == ["LAKE_ONLY", "LOG_ONLY"]


def test_a_filter_that_never_holds_reads_nothing():
    plan = in_lake([file()], ("id", "in", []))

    assert plan.splits == ()
    assert told(plan) == [("everything", "no row can match")]


def test_an_alternative_that_never_holds_does_not_hinder_the_others():
    files = [file("/a", bounds=(bounds(0, 0, 9),)), file("/b", bounds=(bounds(0, 10, 19),))]

    plan = in_lake(files, [[("id", "=", None)], [("id", ">", 15)]])

    assert paths(plan) == ["/b"]


# ---- files


def test_a_file_is_left_out_by_its_bounds():
    files = [file("/a", bounds=(bounds(0, 0, 9),)), file("/b", bounds=(bounds(0, 10, 19),))]

    plan = in_lake(files, ("id", ">", 12))

    assert paths(plan) == ["/b"]
    assert told(plan) == [("file …/a of bucket 0", "id in [0, 9]")]
    assert plan.pruned[0].row_count == 10


def test_many_files_are_told_of_in_one_line():
    files = [file(f"/{at}", bounds=(bounds(4, at, at),)) for at in range(20)]

    plan = in_lake(files, ("born", "==", "1970-01-06"))

    assert paths(plan) == ["/5"]
    assert told(plan) == [("19 files of bucket 0", "bounds rule out born = 1970-01-06")]


def test_files_of_many_buckets_are_told_of_in_one_line():
    seen = view(dict.fromkeys(range(20), (0, 9)), dict.fromkeys(range(20), (0, 9)))
    lake = [split(at, [file(f"/{at}", bounds=(bounds(4, at, at),))]) for at in range(20)]

    plan = planned(seen, lake, ("born", "==", "1970-01-06"))

    assert [each.what for each in plan.pruned] == ["19 files of 19 buckets"]


def test_a_split_without_files_is_gone():
    plan = in_lake([file(bounds=(bounds(0, 0, 9),))], ("id", ">", 12))

    assert plan.splits == ()


def test_the_tail_by_key_is_read_when_no_file_can_match():
    seen = view({0: (0, 9)}, {0: (0, 4)}, is_keyed=True)

    plan = planned(seen, [split(0, [file(bounds=(bounds(0, 0, 9),))])], ("id", ">", 12))

    assert [(each.tier, each.reads_state) for each in plan.splits] == [("LOG_ONLY", False)]


def test_columns_that_a_file_does_not_have_are_null_in_it():
    older = file("/a", names=((0, "id"),))

    assert paths(in_lake([older], ("amount", ">", 1.0))) == []
    assert paths(in_lake([older], ("amount", "is null"))) == ["/a"]
    assert told(in_lake([older], ("amount", ">", 1.0))) == [
        ("file …/a of bucket 0", "it has no amount")
    ]


def test_a_file_that_does_not_stand_alone_hides_rows_of_others():
    old = file("/old", stands_alone=False, bounds=(bounds(0, 0, 9), bounds(2, 7.0, 7.0)))
    new = file("/new", stands_alone=False, bounds=(bounds(0, 0, 9), bounds(2, 1.0, 1.0)))

    assert paths(in_lake([old, new], ("amount", "==", 7.0), is_keyed=True)) == ["/old", "/new"]
    assert paths(in_lake([old, new], ("id", "==", 70), is_keyed=True)) == []


def test_a_count_of_nulls_that_is_not_known_may_be_any():
    unknown = file("/a", row_count=1, bounds=(bounds(0, 5, 5, null_count=None),))
    nulls = file("/b", row_count=1, bounds=(bounds(0, None, None, null_count=1),))

    assert paths(in_lake([unknown, nulls], ("id", "is null"))) == ["/a", "/b"]
    assert paths(in_lake([unknown, nulls], ("id", "is not null"))) == ["/a"]
    assert paths(in_lake([unknown, nulls], ("id", "==", 5))) == ["/a"]


def test_bounds_of_floats_may_leave_out_what_is_no_number():
    one = file("/a", bounds=(bounds(2, 5.0, 5.0),))

    assert paths(in_lake([one], ("amount", "!=", 5.0))) == ["/a"]
    assert paths(in_lake([one], ("amount", ">", 6.0))) == []


# ---- never a row lost

SCHEMA = table().schema
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -3.0, math.nan, math.inf, -math.inf])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "\uffff", "\U0001f600", "zz"])
NUMBERS = st.integers(-4, 4)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | NUMBERS,
            "day": st.none() | TEXTS,
            "amount": st.none() | FLOATS,
            "name": st.none() | TEXTS,
            "born": st.none() | NUMBERS,
        }
    ),
    min_size=1,
    max_size=5,
)
COMPARED = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
TERMS = st.one_of(
    st.tuples(st.sampled_from(["id"]), COMPARED, NUMBERS | st.sampled_from([0.5, -1.5])),
    st.tuples(st.sampled_from(["amount"]), COMPARED, FLOATS),
    st.tuples(st.sampled_from(["day", "name"]), COMPARED | st.just("starts with"), TEXTS),
    st.tuples(st.sampled_from(["id"]), st.sampled_from(["in", "not in"]), st.lists(NUMBERS)),
    st.tuples(st.sampled_from(["amount"]), st.sampled_from(["in", "not in"]), st.lists(FLOATS)),
    st.tuples(st.sampled_from(["id", "name"]), st.sampled_from(["is null", "is not null"])),
    st.tuples(
        st.just("born"),
        COMPARED,
        st.dates(np.datetime64(-5, "D").item(), np.datetime64(5, "D").item()),
    ),
)
WHERE = st.lists(st.lists(TERMS, min_size=1, max_size=3), min_size=1, max_size=3)


def row(**values):
    return {**dict.fromkeys(SCHEMA.names), **values}


def batch_of(rows):
    shape = arrow_schema(SCHEMA)
    columns = [
        pa.array([row[field.name] for row in rows], pa.int32()).cast(field.type)
        if pa.types.is_date(field.type)
        else pa.array([row[field.name] for row in rows], field.type)
        for field in shape
    ]
    return pa.record_batch(columns, schema=shape)


def described(batch, *, has_nulls, width):
    """Return bounds as a format might keep them: cut texts, no NaN, no count of nulls."""
    types = [field.type for field in batch.schema]
    for at, held in parse_statistics(encode_statistics(batch, SCHEMA, range(5)), types).items():
        low, high = held.minimum, held.maximum
        if pa.types.is_floating(types[at]):
            numbers = batch.column(at).filter(pc.invert(pc.is_nan(batch.column(at)))).drop_null()
            low, high = (pc.min(numbers).as_py(), pc.max(numbers).as_py())
            if low is None and batch.column(at).null_count < len(batch):
                continue
        if isinstance(low, str):
            low, high = low[:width], high[:width] + chr(0x10FFFF) if len(high) > width else high
        yield bounds(at, low, high, held.null_count if has_nulls else None)


@given(st.lists(ROWS, min_size=1, max_size=4), WHERE, st.booleans(), st.integers(1, 3))
@example([[row(amount=1.5), row(amount=math.nan)]], [[("amount", "!=", 1.5)]], True, 1)
@settings(max_examples=examples(300))
def test_a_file_with_a_wanted_row_is_never_left_out(parts, where, has_nulls, width):
    batches = {f"/{at}": batch_of(rows) for at, rows in enumerate(parts)}
    files = [
        file(
            path,
            row_count=batch.num_rows,
            bounds=tuple(described(batch, has_nulls=has_nulls, width=width)),
        )
        for path, batch in batches.items()
    ]

    kept = paths(in_lake(files, where))

    wanted = Filter.of(where, SCHEMA)
    matching = {path for path, batch in batches.items() if any(wanted.mask(batch).to_pylist())}
    assert matching <= set(kept)
