"""A lake that fails when a test wants it to; everything else is that of a real one."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.errors import LakeCommitUnknownError
from headwater.lake.lakes import Lakes
from headwater.lake.spi import LakeStorage


def nothing() -> None:
    """Let it pass."""


def outcome_unknown() -> None:
    """Break the connection."""
    raise LakeCommitUnknownError("The connection broke.")


@dataclass
class Shaking:
    """Step in around calls of one lake; each hook is called in the thread of the call."""

    before_commit: Callable[[], None] = nothing
    after_commit: Callable[[], None] = nothing
    before_write: Callable[[], None] = nothing
    before_upkeep: Callable[[], None] = nothing
    commits: int = field(default=0)

    def over(self, lakes: Lakes) -> Lakes:
        return Lakes(opener=lambda name, config: ShakyLake(lakes.opener(name, config), self))


@dataclass
class Delegate:
    inner: object
    shaking: Shaking

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


class ShakyLake(Delegate):
    inner: LakeStorage

    def committer(self, spec):
        return ShakyCommitter(self.inner.committer(spec), self.shaking)

    def writer(self, spec, task):
        self.shaking.before_write()
        return self.inner.writer(spec, task)

    def keeper(self, spec):
        self.shaking.before_upkeep()
        return self.inner.keeper(spec)


class ShakyCommitter(Delegate):
    def commit(self, results, **named):
        self.shaking.commits += 1
        self.shaking.before_commit()
        snapshot = self.inner.commit(results, **named)
        self.shaking.after_commit()
        return snapshot


def first_time(step: Callable[[], None]) -> Callable[[], None]:
    """Take a step at the first call only."""
    left = [step]

    def take() -> None:
        if left:
            left.pop()()

    return take
