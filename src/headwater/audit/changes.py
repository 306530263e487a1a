"""A changelog as prints: whether each change fits the one before it, and what all of them leave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import Longs, Mask, Words

# So many changes are looked at together, as that takes little more time than for a few.
ROWS_TOGETHER = 1_000_000
# The first ones tell what is wrong; of the others, the number does.
MISFITS_MAX = 10
_INSERT, _BEFORE = int(ChangeType.INSERT), int(ChangeType.UPDATE_BEFORE)
_AFTER, _DELETE = int(ChangeType.UPDATE_AFTER), int(ChangeType.DELETE)
_NOTHING = 255  # no change of the key is known before

Types = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Hold changes in the order of the log: what each does, to which key, with which row."""

    types: Types
    keys: Words
    rows: Words
    offsets: Longs

    def __len__(self) -> int:
        return len(self.types)

    def take(self, places: Longs | Mask) -> "Changes":
        """Return the changes at some places."""
        return Changes(
            self.types[places], self.keys[places], self.rows[places], self.offsets[places]
        )

    @classmethod
    def joined(cls, parts: Sequence["Changes"]) -> "Changes":
        """Put changes one behind the other."""
        return cls(
            np.concatenate([part.types for part in parts]),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.offsets for part in parts]),
        )


NO_CHANGES = Changes(
    np.empty(0, np.uint8), np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Say which change does not fit those before it, and why."""

    offset: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRules:
    """Say what is known of a changelog."""

    shows_before: bool
    """Whether the row before each update is shown; if not, updates may stand for inserts."""


@dataclass(slots=True)
class ChangeFold:
    """Take the changes of one bucket in their order, and keep the last one of each key.

    Each key takes 25 bytes, however large its row is.
    """

    rules: ChangeRules
    is_whole: bool
    """Whether the changes begin with the first that there ever was."""
    misfits: list[Misfit] = field(default_factory=list)
    """The first ones, of as many as are counted."""
    misfit_count: int = 0
    change_count: int = 0
    _held: Changes = NO_CHANGES
    _waiting: list[Changes] = field(default_factory=list)
    _waiting_rows: int = 0

    def add(self, changes: Changes) -> None:
        """Take changes that come after all that came before."""
        self.change_count += len(changes)
        self._waiting.append(changes)
        self._waiting_rows += len(changes)
        if self._waiting_rows >= max(ROWS_TOGETHER, len(self._held)):
            self._settle()

    def begin_anew(self) -> None:
        """Forget all changes, since some behind them are not known."""
        self._settle()
        self._held, self.is_whole = NO_CHANGES, False

    def held(self) -> Changes:
        """Return the last change of each key, in the order of their prints.

        Where the changes are whole, keys that were deleted are left out.
        """
        self._settle()
        return self._held

    def _settle(self) -> None:
        if not self._waiting:
            return
        came = Changes.joined(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        if self.rules.shows_before:
            self._note(came.offsets, _unpaired(came), "is half of an update: the other half lacks")
        together = Changes.joined([self._held, came])
        order = np.argsort(together.keys, kind="stable")
        sorted_ = together.take(order)
        self._check(sorted_, is_new=order >= len(self._held))
        is_last = np.append(sorted_.keys[1:] != sorted_.keys[:-1], [True])[: len(sorted_)]
        kept = sorted_.take(is_last)
        self._held = kept.take(kept.types != _DELETE) if self.is_whole else kept

    def _check(self, changes: Changes, *, is_new: Mask) -> None:
        """Compare each new change with the one of its key before it; all are in order of keys."""
        is_first = np.append([True], changes.keys[1:] != changes.keys[:-1])[: len(changes)]
        before = np.append([np.uint8(_NOTHING)], changes.types[:-1])[: len(changes)]
        before[is_first] = _DELETE if self.is_whole else _NOTHING
        is_there = (before == _INSERT) | (before == _AFTER)
        is_other = np.append([False], changes.rows[1:] != changes.rows[:-1])[: len(changes)]
        for mask, why in _rules(changes.types, before, is_there, is_other, self.rules):
            self._note(changes.offsets, mask & is_new, why)

    def _note(self, offsets: Longs, is_bad: Mask, why: str) -> None:
        if not is_bad.any():
            return
        bad = np.sort(offsets[is_bad])
        self.misfit_count += len(bad)
        room = MISFITS_MAX - len(self.misfits)
        self.misfits += [Misfit(int(offset), why) for offset in bad[:room]]


def _rules(
    types: Types, before: Types, is_there: Mask, is_other: Mask, rules: ChangeRules
) -> Iterator[tuple[Mask, str]]:
    """Yield which changes break a rule, and what is wrong with them."""
    is_gone = before == _DELETE
    yield (types == _INSERT) & is_there, "inserts a key that is there already"
    yield (types == _DELETE) & is_gone, "deletes a key that is not there"
    if not rules.shows_before:
        return
    yield (types == _BEFORE) & is_gone, "updates a key that is not there"
    shows_row = (types == _BEFORE) | (types == _DELETE)
    yield shows_row & is_there & is_other, "shows another row than the one that was there before it"


def _unpaired(changes: Changes) -> Mask:
    """Return the halves of updates that do not stand beside their other half."""
    types, keys = changes.types, changes.keys
    is_pair = (types[:-1] == _BEFORE) & (types[1:] == _AFTER) & (keys[:-1] == keys[1:])
    is_paired = np.append(is_pair, [False]) | np.append([False], is_pair)
    mask: Mask = ((types == _BEFORE) | (types == _AFTER)) & ~is_paired
    return mask


def lookup(held: Changes, keys: Words) -> Longs:
    """Return where each key stands among the kept changes; -1 where it does not."""
    if not len(held):
        return np.full(len(keys), -1, np.int64)
    places = np.minimum(np.searchsorted(held.keys, keys), len(held) - 1)
    found: Longs = np.where(held.keys[places] == keys, places, -1)
    return found
