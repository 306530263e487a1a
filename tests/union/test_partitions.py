"""Partitions that only the lake has, only the log has, or that were dropped and made anew."""

from collections import Counter

import pytest

from headwater.errors import PositionMissingError
from tests.union.engines import ENGINES, Engine
from tests.union.machine import counted
from tests.union.story import Story, Traits

FORMATS = ("iceberg", "paimon")


@pytest.fixture(params=FORMATS)
def lake_format(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["log", "keyed"])
def story(storage, lake_format, request) -> Story:
    return Story(storage, Traits(format=lake_format, is_keyed=request.param, is_partitioned=True))


def rows(day, *numbers, n=0):
    return [{"id": each, "n": n, "text": "a", "day": day} for each in numbers]


def found(story) -> Counter:
    return counted(story.table.scan().to_arrow())


def in_every_engine(story) -> dict[str, Counter]:
    """Read the newest rows with the engines that divide plans by themselves."""
    token, name = story.table.view().token(), str(story.table.path)
    engines: dict[str, Engine] = {
        each: ENGINES[each](story.storage.client)
        for each in ("client", "arrow", "duckdb", "polars", "datafusion")
    }
    try:
        return {
            each: counted(engine.rows(name, token, columns=None, where=[]))
            for each, engine in engines.items()
        }
    finally:
        for engine in engines.values():
            engine.close()


def test_a_partition_that_only_the_log_has_is_read(story):
    story.write(rows("mon", 1, 2))
    story.tier()
    story.write(rows("tue", 1, 3))

    assert found(story) == story.expected()
    assert found(story).total() == 4


def test_a_partition_that_only_the_lake_has_is_read(story):
    story.write([*rows("mon", 1, 2), *rows("tue", 3)])
    story.tier()

    story.drop_partition("mon")

    assert found(story) == story.expected()
    assert found(story).total() == 3


def test_what_was_not_tiered_goes_with_its_partition(story):
    story.write(rows("mon", 1, 2))
    story.tier()
    story.write(rows("mon", 3, 4))

    story.drop_partition("mon")

    assert {dict(row)["id"] for row in found(story)} == {1, 2}


def test_a_partition_that_nobody_tiered_is_gone_when_it_is_dropped(story):
    story.write([*rows("mon", 1, 2), *rows("tue", 3)])

    story.drop_partition("mon")

    assert {dict(row)["id"] for row in found(story)} == {3}


@pytest.mark.parametrize("tiers_between", [False, True])
def test_a_partition_that_is_made_anew_stands_beside_what_the_lake_holds(story, tiers_between):
    story.write([*rows("mon", 1, 2, 3), *rows("tue", 4)])
    story.tier()
    story.drop_partition("mon")
    if tiers_between:
        story.write(rows("tue", 5))
        story.tier()

    story.write(rows("mon", 2, 6, n=9))
    assert story.table.count() == story.expected().total()
    assert in_every_engine(story) == dict.fromkeys(in_every_engine(story), story.expected())
    story.tier()

    assert in_every_engine(story) == dict.fromkeys(in_every_engine(story), story.expected())


def test_a_partition_made_anew_gives_the_same_when_its_log_was_cut(story):
    story.write(rows("mon", 1, 2, 3))
    story.tier()
    story.drop_partition("mon")
    story.write(rows("mon", 2, 6, n=8))
    story.tier()
    story.write(rows("mon", 3, 6, n=9))

    story.cut()

    assert in_every_engine(story) == dict.fromkeys(in_every_engine(story), story.expected())


def test_a_partition_dropped_in_the_lake_only_is_read_from_what_the_log_still_holds(
    storage, lake_format
):
    story = Story(storage, Traits(format=lake_format, is_partitioned=True))
    story.write([*rows("mon", 1, 2), *rows("tue", 3)])

    story.drop_partition("tue")
    story.tier()
    story.write(rows("tue", 7))

    assert {dict(row)["id"] for row in found(story)} == {1, 2, 7}


def test_partitions_that_are_asked_for_are_the_only_ones_that_come(story):
    story.write([*rows("mon", 1, 2), *rows("tue", 3)])
    story.tier()
    story.drop_partition("mon")
    story.write(rows("wed", 4))

    asked = story.table.scan(partitions=[{"day": "mon"}, {"day": "wed"}]).to_arrow()

    assert sorted(asked["id"].to_pylist()) == [1, 2, 4]


def test_a_token_from_before_a_drop_gives_all_of_it_or_an_error(story):
    story.write([*rows("mon", 1, 2), *rows("tue", 3)])
    story.tier()
    token, position = story.table.view().token(), story.now()

    story.drop_partition("mon")

    view = story.table.view(token=token)
    assert counted(view.scan().to_arrow()) == story.expected(position)


def test_a_token_whose_snapshot_is_gone_is_refused_where_the_lake_alone_had_a_dropped_partition(
    story,
):
    story.write(rows("mon", 1, 2))
    story.tier()
    story.drop_partition("mon")
    token, before = story.table.view().token(), found(story)
    assert before.total() == 2  # The lake still shows what it holds.

    for number in range(3):
        story.write(rows("mon", 1, n=number))
        story.tier()
    story.expire_snapshots(keep=1)

    with pytest.raises(PositionMissingError):
        story.table.view(token=token).scan().to_arrow()


def test_a_token_whose_snapshot_is_gone_is_refused_where_a_partition_was_made_anew_before(story):
    story.write(rows("mon", 1, 2))
    story.tier()
    story.drop_partition("mon")
    story.write(rows("mon", 3))
    story.tier()
    token, before = story.table.view().token(), found(story)
    assert before.total() == 3

    for number in range(3):
        story.write(rows("mon", 4, n=number))
        story.tier()
    story.expire_snapshots(keep=1)

    with pytest.raises(PositionMissingError):
        story.table.view(token=token).scan().to_arrow()
