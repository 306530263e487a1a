"""A server that knows no wishes and tells no states, as Apache Fluss is one."""

from dataclasses import dataclass, field

from headwater.client.lake.values import Assignment, HeartbeatAnswer
from headwater.model.boundary import TieringEpoch
from headwater.model.path import TablePath
from headwater.runtime.clock import SystemClock
from headwater.tiering.progress import Began
from headwater.tiering.service import TieringService


@dataclass
class Stranger:
    """Hand out tables in a circle, whatever is asked for; what is finished waits."""

    queue: list[str]
    given_back: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    turns: int = 0

    @property
    def lake(self):
        return self

    @property
    def cluster(self):
        return self

    clock = SystemClock()

    async def heartbeat(self, *, finished=(), failed=(), request=False, **_wishes):
        for each in finished:
            (self.given_back if each.is_forced else self.finished).append(
                each.assignment.path.table
            )
            self.queue += [each.assignment.path.table] if each.is_forced else []
        self.failed += [each.assignment.path.table for each in failed]
        if not request or not self.queue:
            return HeartbeatAnswer(coordinator_epoch=1)
        self.turns += 1
        name = self.queue.pop(0)
        assigned = Assignment(
            path=TablePath("fluss", name), table_id=ord(name), epoch=TieringEpoch(1, self.turns)
        )
        return HeartbeatAnswer(coordinator_epoch=1, assigned=assigned)

    async def table(self, path):
        raise RuntimeError("This table cannot be tiered.")


async def once(server, *tables):
    heard = []
    service = TieringService(server, runner=None, listener=heard.append)
    await service.run_once(tables=[TablePath("fluss", name) for name in tables])
    return [each.path.table for each in heard if isinstance(each, Began)]


async def test_once_takes_every_table_that_is_handed_out():
    server = Stranger(["a", "b"])

    assert await once(server) == ["a", "b"]
    assert server.failed == ["a", "b"]


async def test_a_table_that_is_not_wanted_is_given_back():
    server = Stranger(["a", "b", "c"])

    assert await once(server, "b") == ["b"]
    assert set(server.given_back) == {"a", "c"}
    assert sorted(server.queue) == ["a", "c"]


async def test_asking_ends_when_the_same_tables_come_round_again():
    server = Stranger(["a", "b"])

    assert await once(server, "z") == []
    assert server.turns == 3
    assert sorted(server.queue) == ["a", "b"]
