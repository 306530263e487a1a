"""Plans divided for engines that read Parquet files by themselves."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.read.offsets import Place
from headwater.read.plan import local_path, native_plan
from headwater.read.split import Hybrid, LakeFiles, LogRange, ReadPlan, Tier
from tests.client.union.values import NAMES, file, split

OLDER = NAMES[:2]
FOREIGN = file("/foreign", names=None)
MERGED = file("/merged", stands_alone=False)


def lake_only(*files):
    return LakeFiles(partition=None, bucket=0, files=split(0, files))


def log_only(number=0):
    return LogRange.of(Place(None, number), LakeBucket(None, number), OffsetRange(4, 9))


def hybrid(*files):
    return Hybrid(files=split(0, files), tail=log_only())


def divided(*splits, touched=(), **options):
    return native_plan(
        ReadPlan(splits=splits),
        key=("id",),
        is_touched=lambda _, each: each.path in touched,
        **options,
    )


def paths(plan):
    return [[each.path for each in group.files] for group in plan.groups]


def test_files_with_the_same_columns_are_read_in_one_go():
    plan = divided(lake_only(file("/a"), file("/b", names=OLDER)), lake_only(file("/c")))

    assert paths(plan) == [["/a", "/c"], ["/b"]]
    assert [group.names for group in plan.groups] == [NAMES, OLDER]
    assert plan.tail == plan.others == ()


def test_files_with_deletes_are_read_apart():
    plan = divided(lake_only(file("/a"), file("/b", deletes=("/d",)), file("/c", deletes=("/e",))))

    assert paths(plan) == [["/a"], ["/b", "/c"]]


def test_only_touched_files_are_looked_through_for_changed_keys():
    merged = hybrid(file("/a"), file("/b"))

    plan = divided(merged, lake_only(file("/c")), touched=("/b", "/c"))

    assert [(group.is_touched, [f.path for f in group.files]) for group in plan.groups] == [
        (False, ["/a", "/c"]),
        (True, ["/b"]),
    ]
    assert plan.tail == (merged,)
    assert plan.key == ("id",)


def test_touched_files_are_grouped_by_where_they_are():
    there = Hybrid(files=split(1, [file("/b")], day="x"), tail=log_only(1))

    plan = divided(hybrid(file("/a"), file("/c")), there, touched=("/a", "/b", "/c"))

    assert paths(plan) == [["/a", "/c"], ["/b"]]
    assert [(each.partition, each.bucket) for each in plan.groups] == [
        ((), 0),
        ((("day", "x"),), 1),
    ]


def test_touched_files_are_left_to_the_reader_where_engines_take_different_keys_for_one():
    touched, untouched = hybrid(file("/a")), hybrid(file("/b"))

    plan = divided(touched, untouched, touched=("/a",), tells_keys_apart=False)

    assert plan.others == (touched,)
    assert plan.tail == (untouched,)


def test_rows_of_the_log_are_the_tail():
    plan = divided(log_only(0), log_only(1))

    assert plan.tail == (log_only(0), log_only(1))
    assert plan.groups == plan.others == ()


def test_what_an_engine_cannot_read_is_left_to_the_reader():
    plan = divided(lake_only(file("/a"), FOREIGN, MERGED), lake_only(file("/b", format="orc")))

    assert paths(plan) == [["/a"]]
    assert plan.others == (lake_only(FOREIGN, MERGED), lake_only(file("/b", format="orc")))


def test_a_merged_split_with_a_file_that_an_engine_cannot_read_is_left_whole_to_the_reader():
    merged = hybrid(file("/a"), FOREIGN)

    plan = divided(merged)

    assert plan.others == (merged,)
    assert plan.groups == plan.tail == ()


def test_files_that_are_not_local_are_left_to_the_reader_unless_asked_for():
    far = lake_only(file("s3://lake/a"), file("file:///b"), file("/c", deletes=("s3://lake/d",)))

    assert paths(divided(far)) == [["file:///b"]]
    assert paths(divided(far, schemes=frozenset({"file", "s3"}))) == [
        ["s3://lake/a", "file:///b"],
        ["/c"],
    ]


def test_local_paths_are_known_with_and_without_their_scheme():
    named = ["/a/b #?c", "file:/a/b #?c", "file:///a/b #?c", "file://localhost/a/b #?c"]

    assert {local_path(path) for path in named} == {"/a/b #?c"}


FILES = st.lists(
    st.builds(
        file,
        st.sampled_from(["/a", "/b", "file:/c", "s3://d"]),
        names=st.sampled_from([NAMES, OLDER, None]),
        stands_alone=st.booleans(),
        deletes=st.sampled_from([(), ("/x",)]),
    ),
    min_size=1,
    max_size=4,
)
SPLITS = st.lists(
    st.builds(lambda make, files: make(*files), st.sampled_from([lake_only, hybrid]), FILES)
)


@given(SPLITS)
def test_every_file_is_read_once_and_every_tail_once(splits):
    plan = divided(*splits)

    in_groups = [each for group in plan.groups for each in group.files]
    in_others = [each for other in plan.others for each in other.lake.files]
    wanted = [each for one in splits for each in one.lake.files]
    tails = [each for each in (*plan.tail, *plan.others) if each.tier is Tier.HYBRID]
    assert sorted(map(str, in_groups + in_others)) == sorted(map(str, wanted))
    assert all(each.is_native for each in in_groups)
    assert len(tails) == sum(one.tier is Tier.HYBRID for one in splits)
