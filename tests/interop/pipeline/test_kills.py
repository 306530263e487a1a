"""A tablet server is killed while rows flow: they flow on, each of them once."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.tiering.progress import News, RoundStep, Stepped
from tests.interop.pipeline.pipeline import orders
from tests.torture.processes import wait_until

WITHIN_S = 300.0
ROWS_AT_ONCE = 50
PAUSE_S = 0.2


@pytest.fixture
def kill(lake_cluster):
    """Give what kills a tablet server, which is started again in the end."""
    killed = []

    def kill(number: int) -> None:
        killed.append(number)
        lake_cluster.cluster.kill_tablet_server(number)

    yield kill
    for number in killed:
        lake_cluster.cluster.restart_tablet_server(number)


class Feeder:
    """Append orders to a table until told to stop."""

    def __init__(self, table) -> None:
        self.count = 0
        self._table = table
        self._stopped = threading.Event()
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def _feed(self) -> None:
        write = self._table.upsert if self._table.is_keyed else self._table.append
        try:
            while not self._stopped.wait(PAUSE_S):
                write(orders(self.count, self.count + ROWS_AT_ONCE))
                self.count += ROWS_AT_ONCE
        except Exception as fault:  # noqa: BLE001 - told where the test waits
            self._fault = fault

    @contextmanager
    def feeding(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()
        if self._fault is not None:
            raise self._fault

    def wait_for_more(self, rows: int) -> None:
        wanted = self.count + rows
        wait_until(lambda: self.count >= wanted or self._fault, within_s=WITHIN_S)


def end_of(table) -> int:
    """Return how many records the logs of a table have taken."""
    return sum(table.offsets().values())


KINDS = pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])


@KINDS
def test_a_stream_goes_on_without_a_tablet_server(pipeline, kill, tmp_path, is_keyed):
    source, target = pipeline.create(), pipeline.create(is_keyed=is_keyed)
    feeder = Feeder(source)
    rows = pipeline.stream(source, **{"scan.startup.mode": "earliest", "maxRowsPerTrigger": "200"})

    with feeder.feeding():
        query = pipeline.copy(rows, target, tmp_path, processingTime="0 seconds")
        wait_until(lambda: not query.isActive or end_of(target) > 0, within_s=WITHIN_S)
        kill(pipeline.leader(target))
        feeder.wait_for_more(10 * ROWS_AT_ONCE)
    wait_until(lambda: not query.isActive or end_of(target) >= feeder.count, within_s=WITHIN_S)
    assert query.exception() is None
    query.stop()

    assert pipeline.by_log(source) == Counter(orders(0, feeder.count))
    assert pipeline.by_log(target) == Counter(orders(0, feeder.count))
    assert end_of(target) == feeder.count


@KINDS
def test_a_round_of_tiering_goes_on_without_a_tablet_server(pipeline, kill, is_keyed):
    table = pipeline.create(is_keyed=is_keyed, has_lake=True)
    feeder = Feeder(table)
    leader = pipeline.leader(table)
    killed = threading.Event()

    def kill_before_rows_are_read(news: News) -> None:
        if isinstance(news, Stepped) and news.step is RoundStep.WRITE and not killed.is_set():
            kill(leader)
            killed.set()

    with feeder.feeding():
        feeder.wait_for_more(4 * ROWS_AT_ONCE)
        pipeline.tier(table, listener=kill_before_rows_are_read)
        feeder.wait_for_more(4 * ROWS_AT_ONCE)
    pipeline.tier(table)

    assert killed.is_set()
    assert pipeline.lake_rows(table) == Counter(orders(0, feeder.count))
    pipeline.check(table, Counter(orders(0, feeder.count)))
    assert end_of(table) == feeder.count


def test_a_cursor_goes_on_without_a_tablet_server(pipeline, kill):
    table = pipeline.create()
    feeder = Feeder(table)
    name = table.path.table
    taken: set[int] = set()

    with feeder.feeding():
        with table.cursor(name) as cursor:
            read_until(lambda: len(taken) >= ROWS_AT_ONCE, cursor, taken)
            cursor.commit()
            kill(pipeline.leader(table))
            feeder.wait_for_more(4 * ROWS_AT_ONCE)
            read_until(lambda: len(taken) >= 4 * ROWS_AT_ONCE, cursor, taken)
        feeder.wait_for_more(ROWS_AT_ONCE)
    with table.cursor(name) as cursor:
        read_until(lambda: len(taken) >= feeder.count, cursor, taken)

    assert taken == set(range(feeder.count))
    assert pipeline.client.cursors.describe(name, table.path).lag_rows == 0


def read_until(is_enough, cursor, taken) -> None:
    """Take what a cursor gives until it is enough."""

    def take() -> bool:
        for batch in cursor.poll(1.0):
            taken.update(batch.rows["id"].to_pylist())
        return is_enough()

    wait_until(take, within_s=WITHIN_S)
