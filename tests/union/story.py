"""One table of a storage with its oracle: every change goes to both."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from headwater.client.sync.table import Table
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.spi import LakeSnapshot, Retention
from headwater.model.boundary import LakeBucket
from headwater.read.offsets import LogBatch, Place
from headwater.rows.log_batch import ChangeType
from headwater.tiering.plan import Limits
from headwater.tiering.progress import LakeTarget
from headwater.tiering.target import report_snapshot
from headwater.tiering.task import LocalRunner
from headwater.tiering.upkeep import compact
from tests.tiering.world import World
from tests.union.oracle import Change, Columns, Oracle
from tests.union.storage import Storage

COLUMNS = {"id": "BIGINT", "n": "INT", "text": "STRING"}
PARTITION_COLUMN = "day"
ROWS_MAX = 1_000_000
_numbers = count(1)


@dataclass(frozen=True)
class Traits:
    """What kind of table it is."""

    format: str = "iceberg"
    is_keyed: bool = False
    is_partitioned: bool = False
    buckets: int = 2
    key: tuple[str, ...] = ("id",)
    schema: tuple[tuple[str, str], ...] = tuple(COLUMNS.items())
    options: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        kind = "keyed" if self.is_keyed else "log"
        return f"{self.format}-{kind}{'-partitioned' if self.is_partitioned else ''}"


@dataclass(frozen=True)
class Position:
    """What the oracle has to give for a position: how far each bucket goes, and the columns."""

    ends: Mapping[LakeBucket, int]
    held: Mapping[LakeBucket, int]
    """How far the lake holds partitions that were dropped before."""
    schema_id: int
    live: frozenset[int | None]
    moment_ms: int = 0
    token: str = ""
    snapshot_id: int | None = None
    """The snapshot that the token names."""

    @property
    def all_ends(self) -> dict[LakeBucket, int]:
        return {**self.held, **self.ends}


class Story:
    """A table and everything that happened to it."""

    def __init__(self, storage: Storage, traits: Traits, *, name: str = "t") -> None:
        self.storage, self.traits = storage, traits
        schema = dict(traits.schema)
        if traits.is_partitioned:
            schema[PARTITION_COLUMN] = "STRING"
        day = [PARTITION_COLUMN] if traits.is_partitioned else []
        kind = {"primary_key": [*traits.key, *day]} if traits.is_keyed else {}
        self.table: Table = storage.client.create_table(
            f"{name}{next(_numbers)}",
            schema,
            partition_by=day,
            bucket_by=traits.key[0],
            buckets=traits.buckets,
            options={
                "table.datalake.enabled": True,
                "table.datalake.format": traits.format,
                **dict(traits.options),
            },
            **kind,
        )
        self.ids = {name: number for number, name in enumerate(schema)}
        self._next_id = len(schema)
        self.oracle = Oracle(key=tuple(self.ids[each] for each in kind.get("primary_key", ())))
        self.oracle.live = set() if traits.is_partitioned else {None}
        self.lake_ends: dict[LakeBucket, int] = {}
        self.snapshots: dict[int, Position] = {}
        self.has_dropped = False
        self._turn = 0
        self._note_schema()
        self.absorb()

    # ---- writing

    def write(self, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            (self.table.upsert if self.traits.is_keyed else self.table.append)(list(rows))
            self.absorb()

    def update(self, rows: Sequence[Mapping[str, object]], *, columns: Sequence[str]) -> None:
        if rows:
            self.table.upsert(list(rows), columns=list(columns))
            self.absorb()

    def delete(self, keys: Sequence[Mapping[str, object]]) -> None:
        if keys:
            self.table.delete(list(keys))
            self.absorb()

    def absorb(self) -> None:
        """Tell the oracle what was written, right after it was."""
        self.storage.pass_time()
        self._note_partitions()
        known, ends = self.oracle.logs, self.places(self.table.offsets())
        starts = {place: len(known.get(bucket, [])) for place, bucket in ends.items()}
        for batch in self._log(starts):
            bucket = LakeBucket(batch.bucket.partition_id, batch.bucket.bucket)
            for row, offset, change in zip(
                batch.rows.to_pylist(), batch.offsets.tolist(), _kinds(batch), strict=True
            ):
                self.oracle.add(bucket, self._change(row, change), offset=offset)
        for place, end in self.table.offsets().items():
            self.oracle.skip(ends[place], to=end)

    def _change(self, row: Mapping[str, object], kind: int) -> Change:
        return Change(
            {self.ids[name]: value for name, value in row.items()},
            is_delete=kind == ChangeType.DELETE,
            is_ignored=kind == ChangeType.UPDATE_BEFORE,
        )

    def _log(self, starts: Mapping[Place, int]) -> list[LogBatch]:
        return self.run(lambda world: world.log(self.table._table, start=starts))

    # ---- columns

    def add_column(self, name: str, kind: str) -> None:
        self.table.add_column(name, kind)
        self.ids[name] = self._next_id
        self._next_id += 1
        self._note_schema()

    def rename_column(self, old: str, new: str) -> None:
        self.table.rename_column(old, new)
        self.ids = {new if name == old else name: each for name, each in self.ids.items()}
        self._note_schema()

    def drop_column(self, name: str) -> None:
        self.table.drop_column(name)
        del self.ids[name]
        self._note_schema()

    def _note_schema(self) -> None:
        names = {self.ids[name]: name for name in self.table.schema.names}
        self.oracle.schemas[self.table.info.schema_id] = Columns(names)

    # ---- partitions

    def create_partition(self, name: str) -> None:
        self.table.create_partition({PARTITION_COLUMN: name}, exists_ok=True)
        self.absorb()

    def drop_partition(self, name: str) -> None:
        self._note_partitions()
        self.table.drop_partition({PARTITION_COLUMN: name})
        gone = {each for each in self.oracle.live if self.oracle.partitions[each] == name}
        self.oracle.live -= gone
        self.has_dropped = True
        self._note_partitions()

    def live_partitions(self) -> list[str]:
        return sorted(self.oracle.partitions[each] for each in self.oracle.live if each is not None)

    def _note_partitions(self) -> None:
        if self.traits.is_partitioned:
            cluster, info = self.table._table.cluster, self.table.info
            names = self.storage.client.run(lambda _client: cluster.partitions(info))
            self.oracle.partitions |= {number: name for name, number in names.items()}
            self.oracle.live = set(names.values())

    def places(self, offsets: Iterable[Place]) -> dict[Place, LakeBucket]:
        """Return the bucket of each place; a place names partitions, which may come anew."""
        ids = {self.oracle.partitions[each]: each for each in self.oracle.live if each is not None}
        return {place: LakeBucket(ids.get(place.partition), place.bucket) for place in offsets}

    # ---- the lake

    def run(self, work):
        """Run what awaits, with a world around the table."""
        lakes, traits = Lakes(), self.traits

        async def running(client):
            world = World(client, lakes, traits.format, Path())
            return await work(world)

        return self.storage.client.run(running)

    def tier(self, *, rows_max: int = ROWS_MAX, **traits) -> LakeSnapshot | None:
        self._turn += 1

        async def tiered(world):
            world.limits = Limits(rows_max=rows_max)
            return await world.tier(
                self.table._table, self._turn, storage=self.storage.storage_id, **traits
            )

        report = self.run(tiered)
        self.note_lake(report.snapshot)
        return report.snapshot

    def note_lake(self, snapshot: LakeSnapshot | None) -> None:
        """Remember what the lake holds by now."""
        if snapshot is None or snapshot.boundary is None:
            return
        ends = {bucket: held.end for bucket, held in snapshot.boundary.ranges.items()}
        # What was dropped stays in the lake, though its boundary tells nothing of it any more.
        self.lake_ends |= ends
        self.snapshots.setdefault(snapshot.snapshot_id, self._held())

    def _held(self) -> Position:
        return Position(
            ends=dict(self.lake_ends),
            held={},
            schema_id=self.table.info.schema_id,
            live=frozenset(self.oracle.live),
        )

    def target(self) -> LakeTarget:
        info = self.table.info
        return LakeTarget(info, Lakes().of(info), lake_spec(info))

    def has_lake(self) -> bool:
        return bool(self.snapshots)

    def head(self) -> LakeSnapshot:
        target = self.target()
        head = target.lake.committer(target.spec).head()
        assert head is not None
        return head

    def kept_snapshots(self) -> list[LakeSnapshot]:
        target = self.target()
        return target.lake.source(target.spec).snapshots() if self.has_lake() else []

    def compact(self, *, reports: bool) -> None:
        if not self.has_lake():
            return
        target, head = self.target(), self.head()

        async def compacted(world):
            made, _ = await compact(target, head, runner=LocalRunner(world.hw))
            if reports:
                turn = world.turn(self.table._table, self._turn)
                await report_snapshot(world.hw, turn.assignment, made)
            return made

        self.note_lake(self.run(compacted))

    def expire_snapshots(self, *, keep: int) -> None:
        if self.has_lake():
            target = self.target()
            now_ms = max(each.committed_ms for each in self.kept_snapshots()) + 1000
            keeper = target.lake.keeper(target.spec)
            keeper.expire(Retention(snapshots_min=keep, age_ms=0), now_ms=now_ms)

    def cut(self, *, kept: Mapping[LakeBucket, int] | None = None) -> None:
        """Let the log forget what the lake holds, or only what lies below `kept`."""
        self.storage.cut(self.table.info.table_id, kept=kept)

    def log_starts(self) -> dict[LakeBucket, int]:
        offsets = self.table.offsets("earliest")
        places = self.places(offsets)
        return {places[place]: start for place, start in offsets.items()}

    # ---- what has to come out

    def now(self) -> Position:
        """Return the position of all that was written."""
        live = frozenset(self.oracle.live)
        held = {
            bucket: end for bucket, end in self.lake_ends.items() if bucket.partition_id not in live
        }
        return Position(
            ends=self.oracle.ends(),
            held=held,
            schema_id=self.table.info.schema_id,
            live=live,
            moment_ms=self.storage.pass_time(),
        )

    def expected(
        self, position: Position | None = None, *, schema_id: int | None = None
    ) -> Counter:
        position = position or self.now()
        return self.oracle.rows(position.all_ends, schema_id=schema_id or position.schema_id)


def _kinds(batch: LogBatch) -> list[int]:
    return [-1] * batch.rows.num_rows if batch.changes is None else batch.changes.tolist()
