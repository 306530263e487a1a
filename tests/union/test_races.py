"""Readers beside writers, tierers and upkeep never see a row twice, or not at all."""

import pytest

import headwater
from tests.union.engines import DuckDB
from tests.union.numbers_in_a_row import Accounts, Keeper, Numbers, Seen, Side, check_balances
from tests.union.story import Story, Traits

SHORT_S = 4.0
LONG_S = 120.0
FORMATS = ("iceberg", "paimon")


def numbers_of(connection, name):
    return [row[0] for row in connection.execute(f"SELECT id FROM hw.{name}").fetchall()]


def race_of_numbers(storage, traits, *, seconds):
    story = Story(storage, traits)
    numbers, side, name = Numbers(story), Side(), str(story.table.path)
    numbers.write()
    duck = DuckDB(storage.client)
    with headwater.connect(storage.address) as other:
        table = other.table(name)
        by_scan, by_sql = (Seen(lambda: numbers.next, traits.buckets == 1) for _ in range(2))

        def scanned():
            return table.scan(columns="id").to_arrow()["id"].to_pylist()

        side.repeat(numbers.write)
        side.repeat(Keeper(story).keep)
        side.repeat(lambda: by_scan.look(scanned))
        side.repeat(lambda: by_sql.look(lambda: numbers_of(duck.connection, name)))
        side.run_for(seconds)
    duck.close()
    assert by_scan.looks
    assert by_sql.looks
    return story


def race_of_accounts(storage, traits, *, seconds):
    story = Story(storage, traits)
    accounts, side, name = Accounts(story), Side(), str(story.table.path)
    duck = DuckDB(storage.client)
    with headwater.connect(storage.address) as other:
        table = other.table(name)

        def scan():
            rows = table.scan(columns=["id", "n"]).to_arrow()
            check_balances(list(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True)))

        side.repeat(accounts.move)
        side.repeat(Keeper(story).keep)
        side.repeat(scan)
        side.repeat(
            lambda: check_balances(
                duck.connection.execute(f"SELECT id, n FROM hw.{name}").fetchall()
            )
        )
        side.run_for(seconds)
    duck.close()
    return story


@pytest.mark.parametrize(("lake_format", "buckets"), [("iceberg", 1), ("paimon", 2)])
def test_numbers_in_a_row_have_no_gap_and_none_comes_twice(storage, lake_format, buckets):
    traits = Traits(format=lake_format, buckets=buckets)

    story = race_of_numbers(storage, traits, seconds=SHORT_S)

    assert len(story.snapshots) > 1


@pytest.mark.parametrize("lake_format", FORMATS)
def test_money_that_is_moved_is_never_lost_or_made(storage, lake_format):
    traits = Traits(format=lake_format, is_keyed=True, buckets=1)

    story = race_of_accounts(storage, traits, seconds=SHORT_S)

    assert len(story.snapshots) > 1


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lake_format", FORMATS)
@pytest.mark.parametrize("buckets", [1, 3])
def test_numbers_in_a_row_have_no_gap_for_long(storage, lake_format, buckets):
    race_of_numbers(storage, Traits(format=lake_format, buckets=buckets), seconds=LONG_S)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lake_format", FORMATS)
def test_money_is_never_lost_or_made_for_long(storage, lake_format):
    traits = Traits(format=lake_format, is_keyed=True, buckets=1)

    race_of_accounts(storage, traits, seconds=LONG_S)
