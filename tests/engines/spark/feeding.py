"""Rows that keep coming while copies are made of them."""

import random
import threading
from types import TracebackType
from typing import Self

import headwater

CITIES = ("bern", "oslo", "ulm", "wien")
KEYS = 300
ROWS_AT_ONCE = 40
PAUSE_S = 0.1


class Feeder:
    """Append to a log table, and change a primary-key table, until told to stop."""

    def __init__(self, log: headwater.Table, keyed: headwater.Table, *, seed: int) -> None:
        self._log = log
        self._keyed = keyed
        self._random = random.Random(seed)
        self._next = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._stopped.wait(PAUSE_S):
            self._log.append([self._row(self._next + each) for each in range(ROWS_AT_ONCE)])
            self._next += ROWS_AT_ONCE
            keys = self._random.sample(range(KEYS), ROWS_AT_ONCE)
            self._keyed.upsert([self._row(key) for key in keys])
            self._keyed.delete(self._random.sample(range(KEYS), ROWS_AT_ONCE // 4))

    def _row(self, key: int) -> tuple[int, str, int]:
        return key, self._random.choice(CITIES), self._random.randrange(1_000_000)
