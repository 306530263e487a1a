"""Writers and tierers that go on until they are told to stop, beside readers that check."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from headwater.errors import ConflictError
from tests.union.story import ROWS_MAX, Story

ACCOUNTS = 20
BALANCE = 100


@dataclass
class Side:
    """Run things side by side until one fails or all of it is stopped."""

    stopping: threading.Event = field(default_factory=threading.Event)
    faults: list[BaseException] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def repeat(self, step: Callable[[], None]) -> None:
        """Begin a thread that takes a step again and again."""

        def run() -> None:
            try:
                while not self.stopping.is_set():
                    step()
            except BaseException as fault:  # noqa: BLE001 - told at the end
                self.faults.append(fault)
                self.stopping.set()

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def run_until(
        self, is_done: Callable[[], bool], *, within_s: float, for_s: float = 0.0
    ) -> None:
        """Let all go on until enough has happened, and at least for some time; then stop them.

        Whatever went wrong with one of them is raised.
        """
        give_up = threading.Timer(within_s, self.stopping.set)
        give_up.start()
        self.stopping.wait(for_s)
        while not self.stopping.wait(0.02) and not is_done():
            pass
        self.stopping.set()
        give_up.cancel()
        for thread in self._threads:
            thread.join(60)
        if self.faults:
            raise self.faults[0]
        assert is_done(), "not enough happened in time"


class Numbers:
    """Append 0, 1, 2, … to a log table with one bucket, or several by the number itself."""

    def __init__(self, story: Story) -> None:
        self.story, self.next = story, 0

    def write(self) -> None:
        batch = range(self.next, self.next + 1 + self.next % 7)
        self.story.table.append([{"id": each, "n": each % 3, "text": "x"} for each in batch])
        self.next = batch.stop


@dataclass
class Seen:
    """Check what one reader sees: every number that was there before it looked, and none twice."""

    acknowledged: Callable[[], int]
    is_in_order: bool
    """Whether there is one bucket, whose rows come in the order in which they were written."""
    last: frozenset[int] = frozenset()
    looks: int = 0

    def look(self, found: Callable[[], list[int]]) -> None:
        before = self.acknowledged()
        numbers = found()
        seen = frozenset(numbers)
        assert len(seen) == len(numbers), f"twice: {sorted(numbers)}"
        assert seen >= self.last | frozenset(range(before)), f"not {before}: {sorted(seen)}"
        assert not self.is_in_order or seen == frozenset(range(len(seen))), sorted(seen)
        self.last = seen
        self.looks += 1


class Keeper:
    """Tier, compact, expire and cut, over and over."""

    def __init__(self, story: Story) -> None:
        self.story, self.rounds = story, 0

    def keep(self) -> None:
        self.rounds += 1
        self.story.tier(rows_max=5 if self.rounds % 4 == 0 else ROWS_MAX)
        # Somebody else may have been quicker, which is for the next time.
        with suppress(ConflictError):
            self._tidy()

    def _tidy(self) -> None:
        if self.rounds % 3 == 0:
            self.story.compact(reports=self.rounds % 2 == 0)
        if self.rounds % 5 == 0:
            self.story.expire_snapshots(keep=3)
        if self.rounds % 2 == 0:
            self.story.cut()


class Accounts:
    """Move money between the accounts of a table by key: one batch never changes the sum."""

    def __init__(self, story: Story) -> None:
        self.story, self.moved, self.looks = story, 0, 0
        self.balances = dict.fromkeys(range(ACCOUNTS), BALANCE)
        story.table.upsert(self._rows(self.balances))

    def move(self) -> None:
        self.moved += 1
        giver, taker = self.moved % ACCOUNTS, (self.moved * 7 + 3) % ACCOUNTS
        if giver == taker:
            return
        self.balances[giver] -= 1
        self.balances[taker] += 1
        self.story.table.upsert(self._rows((giver, taker)))

    def _rows(self, accounts) -> list[dict[str, object]]:
        return [{"id": each, "n": self.balances[each], "text": "x"} for each in accounts]

    def check(self, rows: list[tuple[int, int]]) -> None:
        """Check that no account is missing or twice, and that no money came or went."""
        assert sorted(number for number, _ in rows) == list(range(ACCOUNTS))
        assert sum(balance for _, balance in rows) == ACCOUNTS * BALANCE
        self.looks += 1
