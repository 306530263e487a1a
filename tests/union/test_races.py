"""Readers beside writers, tierers and upkeep never see a row twice, or not at all."""

import subprocess
import sys
from contextlib import ExitStack

import pytest

import headwater
from tests.figures import note, times
from tests.union.engines import DuckDB
from tests.union.numbers_in_a_row import Accounts, Keeper, Numbers, Seen, Side
from tests.union.story import Story, Traits

FORMATS = ("iceberg", "paimon")
SHORT = 6
WITHIN_S = 90.0
# A long race goes on for so long, however much that is on a machine that is slow today.
LONG_S = float(times(45))
LONG_MIN = 20
LONG_WITHIN_S = LONG_S + 600.0
KILLS_LONG = times(10)
TURNS = 1000


class Readers:
    """Three who read all numbers over and over: two of another client, and one in SQL."""

    def __init__(self, story, numbers, stack):
        self._name = str(story.table.path)
        duck = DuckDB(story.storage.client)
        stack.callback(duck.close)
        self._connection = duck.connection
        other = stack.enter_context(headwater.connect(story.storage.address))
        self._table = other.table(self._name)
        is_in_order = story.traits.buckets == 1
        self.seen = [Seen(lambda: numbers.next, is_in_order) for _ in range(3)]

    def scan(self):
        self.seen[0].look(self._scanned)

    def _scanned(self):
        return self._table.scan(columns="id").to_arrow()["id"].to_pylist()

    def scan_some(self):
        self.seen[2].look(self._scanned_in_part)

    def _scanned_in_part(self):
        rows = self._table.scan(columns=["n", "id"], where=("n", "<", 10)).to_arrow()
        return rows["id"].to_pylist()

    def query(self):
        found = self._connection.execute
        self.seen[1].look(
            lambda: [row[0] for row in found(f"SELECT id FROM hw.{self._name}").fetchall()]
        )

    @property
    def steps(self):
        return self.scan, self.scan_some, self.query

    @property
    def looks(self):
        return min(each.looks for each in self.seen)


def race_of_numbers(storage, traits, *, count, within_s=WITHIN_S, for_s=0.0):
    story = Story(storage, traits)
    numbers, side, keeper = Numbers(story), Side(), Keeper(story)
    numbers.write()
    with ExitStack() as stack:
        readers = Readers(story, numbers, stack)
        for step in (numbers.write, keeper.keep, *readers.steps):
            side.repeat(step)
        side.run_until(
            lambda: min(keeper.rounds, readers.looks) >= count, within_s=within_s, for_s=for_s
        )
    note("races", rounds=keeper.rounds, looks=sum(each.looks for each in readers.seen))
    return story


def race_of_accounts(storage, traits, *, count, within_s=WITHIN_S, for_s=0.0):
    story = Story(storage, traits)
    accounts, side, keeper = Accounts(story), Side(), Keeper(story)
    name, duck = str(story.table.path), DuckDB(storage.client)
    with headwater.connect(storage.address) as other:
        table = other.table(name)

        def scan():
            rows = table.scan(columns=["id", "n"]).to_arrow()
            accounts.check(list(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True)))

        def scan_all():
            rows = table.scan().to_arrow()
            accounts.check(list(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True)))

        def query():
            accounts.check(duck.connection.execute(f"SELECT id, n FROM hw.{name}").fetchall())

        for step in (accounts.move, keeper.keep, scan, scan_all, query):
            side.repeat(step)
        side.run_until(
            lambda: keeper.rounds >= count and accounts.looks >= 2 * count,
            within_s=within_s,
            for_s=for_s,
        )
    duck.close()
    note("races", rounds=keeper.rounds, looks=accounts.looks)
    return story


def kill_tierers(story, *, times):
    """Have the table tiered by processes that are killed one after the other, somewhere."""
    for number in range(times):
        arguments = [story.storage.address, str(story.table.path), story.traits.format]
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.union.tiering_apart",
                *arguments,
                str(number * TURNS + 1),
            ],
            stdout=subprocess.PIPE,
        )
        for _ in range(1 + number):
            process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
    story._turn = times * TURNS


def race_of_killed_tierers(storage, traits, *, times, within_s=WITHIN_S):
    story = Story(storage, traits)
    numbers, side, killed = Numbers(story), Side(), []

    def kill():
        if not killed:
            kill_tierers(story, times=times)
            killed.append(times)
        side.stopping.wait(0.1)

    numbers.write()
    with ExitStack() as stack:
        readers = Readers(story, numbers, stack)
        for step in (numbers.write, kill, *readers.steps):
            side.repeat(step)
        side.run_until(lambda: bool(killed) and readers.looks >= times, within_s=within_s)
    story.absorb()
    return story


@pytest.mark.parametrize(("lake_format", "buckets"), [("iceberg", 1), ("paimon", 2)])
def test_numbers_in_a_row_have_no_gap_and_none_comes_twice(storage, lake_format, buckets):
    story = race_of_numbers(storage, Traits(format=lake_format, buckets=buckets), count=SHORT)

    assert len(story.snapshots) > 1


@pytest.mark.parametrize("lake_format", FORMATS)
def test_money_that_is_moved_is_never_lost_or_made(storage, lake_format):
    traits = Traits(format=lake_format, is_keyed=True, buckets=1)

    story = race_of_accounts(storage, traits, count=SHORT)

    assert len(story.snapshots) > 1


def test_a_tierer_that_is_killed_leaves_nothing_twice(storage):
    story = race_of_killed_tierers(storage, Traits(), times=1)

    story.tier()
    assert story.table.scan().to_arrow().num_rows == story.expected().total()


@pytest.mark.torture
@pytest.mark.timeout(LONG_WITHIN_S + 60)
@pytest.mark.parametrize("lake_format", FORMATS)
@pytest.mark.parametrize("buckets", [1, 3])
def test_numbers_in_a_row_have_no_gap_for_long(storage, lake_format, buckets):
    traits = Traits(format=lake_format, buckets=buckets)

    race_of_numbers(storage, traits, count=LONG_MIN, within_s=LONG_WITHIN_S, for_s=LONG_S)


@pytest.mark.torture
@pytest.mark.timeout(LONG_WITHIN_S + 60)
@pytest.mark.parametrize("lake_format", FORMATS)
def test_money_is_never_lost_or_made_for_long(storage, lake_format):
    traits = Traits(format=lake_format, is_keyed=True, buckets=1)

    race_of_accounts(storage, traits, count=LONG_MIN, within_s=LONG_WITHIN_S, for_s=LONG_S)


@pytest.mark.torture
@pytest.mark.timeout(LONG_WITHIN_S + 60)
@pytest.mark.parametrize("lake_format", FORMATS)
def test_tierers_that_are_killed_again_and_again_leave_nothing_twice(storage, lake_format):
    traits = Traits(format=lake_format)

    race_of_killed_tierers(storage, traits, times=KILLS_LONG, within_s=LONG_WITHIN_S)

    note("races", kills=KILLS_LONG)
