"""How far pipelines are: the table `headwater.pipelines`, in the storage that has their rows.

An *epoch* is a piece of the source's stream, from one position to another. Its plan is written here
before its first row: after a crash the same piece is read again, gives the same rows, and what has
landed of them is recognised. Plans are folded by `max`, so one that a process wrote late, which
everybody took for dead, turns nothing back; a *term* tells such a process that it was replaced.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.errors import ConflictError

PIPELINES = "headwater.pipelines"
BUCKET_COUNT = 4
WHOLE = 2**31 - 1
"""Changes taken of a transaction that was taken to its end."""
NO_EPOCH = -1
_PLAN, _WANTED, _STATUS, _TABLE = "plan", "wanted", "status", "table/"
_SCHEMA = {
    "pipeline": "STRING NOT NULL",
    "entry": "STRING NOT NULL",
    "term": "BIGINT",
    "epoch": "BIGINT",
    "done": "BIGINT",
    "start": "STRING",
    "stop": "STRING",
    "allowed": "STRING",
    "note": "STRING",
}
_FOLDED = ("term", "epoch", "done", "start", "stop", "allowed")

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, order=True)
class SourcePosition:
    """A place in the stream: so many changes of the transaction that was committed there."""

    lsn: int
    taken: int = WHOLE

    @property
    def text(self) -> str:
        """Text that sorts as positions do."""
        return f"{self.lsn:016x}.{self.taken:010d}"

    @classmethod
    def parse(cls, text: str) -> "SourcePosition":
        """Inverse of `text`."""
        lsn, _, taken = text.partition(".")
        return cls(int(lsn, 16), int(taken))


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """A piece of the stream that is written as one epoch."""

    epoch: int
    start: SourcePosition
    stop: SourcePosition
    allowed_lsn: int
    """What the source may forget once the epoch is written."""
    mark: str = ""
    """The form that it was planned with; with another one, the rows would be others."""
    must_see: Sequence[int] = ()
    """Transactions that reads of ranges have to see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStanding:
    """How far a pipeline is: its last plan, and whether that is done."""

    plan: EpochPlan
    done: int
    term: int

    @property
    def is_done(self) -> bool:
        """Tell whether the last plan was carried out."""
        return self.done >= self.plan.epoch


class PipelineJournal:
    """The entries of one pipeline."""

    def __init__(self, client: Client, pipeline: str) -> None:
        self.pipeline = pipeline
        self._table = open_journal(client)
        self._term = 0

    # ---- plans

    def standing(self) -> PipelineStanding | None:
        """How far the pipeline is, or None if it never began."""
        row = self._get(_PLAN)
        return None if row is None or row["start"] is None else _standing(row)

    def take_over(self) -> None:
        """Begin a term: a process of an earlier one finds that it was replaced."""
        row = self._get(_PLAN)
        self._term = cast("int", (row or {}).get("term") or 0) + 1
        self._put(_PLAN, term=self._term)

    def begin(self, position: SourcePosition, *, after: PipelineStanding | None) -> None:
        """Note where the stream begins, or begins anew, with a slot that was just created."""
        if after is not None and after.plan.stop >= position:
            raise ConflictError(
                f"The log of this database is not as far as that which '{self.pipeline}' followed.",
                hint="For another server, give the pipeline another name.",
            )
        epoch = NO_EPOCH if after is None else after.plan.epoch
        at = position.text
        lsn = SourcePosition(position.lsn).text
        self._put(_PLAN, epoch=epoch, done=epoch, start=at, stop=at, allowed=lsn)

    def plan(self, plan: EpochPlan) -> None:
        """Write a plan; raises if another process has taken over."""
        note = json.dumps({"mark": plan.mark, "must_see": list(plan.must_see)})
        self._put(
            _PLAN,
            epoch=plan.epoch,
            start=plan.start.text,
            stop=plan.stop.text,
            allowed=SourcePosition(plan.allowed_lsn).text,
            note=note,
        )
        row = self._get(_PLAN)
        if row is None or row["term"] != self._term or row["stop"] != plan.stop.text:
            raise ConflictError(
                f"Another process runs the pipeline '{self.pipeline}' now.",
                hint="Stop one of the two.",
            )

    def finish(self, epoch: int) -> None:
        """Note that an epoch is written, so that it is not read again."""
        self._put(_PLAN, done=epoch)

    def allow(self, lsn: int) -> None:
        """Note what the source may forget while nothing comes."""
        self._put(_PLAN, allowed=SourcePosition(lsn).text)

    # ---- notes

    def table_note(self, table: str) -> Json | None:
        """What is noted of a source table."""
        return self._note(_TABLE + table)

    def note_table(self, table: str, note: Json) -> None:
        """Note something of a source table."""
        self._put(_TABLE + table, note=json.dumps(note))

    def wanted(self) -> Json:
        """What users want of the pipeline."""
        return self._note(_WANTED) or {}

    def want(self, wishes: Json) -> None:
        """Note what users want, beside what they wanted before."""
        self._put(_WANTED, note=json.dumps({**self.wanted(), **wishes}))

    def status(self) -> Json:
        """What the process that runs the pipeline said last."""
        return self._note(_STATUS) or {}

    def tell(self, status: Json) -> None:
        """Say how it goes."""
        self._put(_STATUS, note=json.dumps(status))

    def _note(self, entry: str) -> Json | None:
        row = self._get(entry)
        return None if row is None or row["note"] is None else json.loads(str(row["note"]))

    def _get(self, entry: str) -> Mapping[str, object] | None:
        return self._table.get({"pipeline": self.pipeline, "entry": entry})

    def _put(self, entry: str, **values: object) -> None:
        row = {**dict.fromkeys(_SCHEMA), "pipeline": self.pipeline, "entry": entry, **values}
        self._table.upsert([row])


def pipelines_in(client: Client) -> list[str]:
    """The names of all pipelines of a storage."""
    if not client.table_exists(PIPELINES):
        return []
    rows = open_journal(client).scan(columns=["pipeline"]).to_arrow()
    return sorted(set(rows.column("pipeline").to_pylist()))


def open_journal(client: Client) -> Table:
    """Open the table of all pipelines; it is created for the first."""
    if not client.table_exists(PIPELINES):
        client.create_database(PIPELINES.partition(".")[0], exists_ok=True)
    return client.create_table(
        PIPELINES,
        _SCHEMA,
        primary_key=("pipeline", "entry"),
        bucket_by="pipeline",
        buckets=BUCKET_COUNT,
        options={
            "table.merge-engine": "aggregation",
            "table.log.ttl": "1 d",
            **{f"fields.{name}.agg": "max" for name in _FOLDED},
        },
        comment="Pipelines, and how far each is.",
        exists_ok=True,
    )


def _standing(row: Mapping[str, object]) -> PipelineStanding:
    note = json.loads(str(row["note"] or "{}"))
    plan = EpochPlan(
        epoch=cast("int", row["epoch"]),
        start=SourcePosition.parse(str(row["start"])),
        stop=SourcePosition.parse(str(row["stop"])),
        allowed_lsn=SourcePosition.parse(str(row["allowed"])).lsn,
        mark=note.get("mark", ""),
        must_see=tuple(note.get("must_see", ())),
    )
    return PipelineStanding(
        plan=plan, done=cast("int", row["done"]), term=cast("int", row["term"] or 0)
    )
