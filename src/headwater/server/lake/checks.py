"""Whether the lake holds what a tierer says: retention deletes rows on that word.

A report names a snapshot and how far it goes. The server opens the lake and reads the snapshot:
ours carry a boundary, those of Apache Fluss's tiering service the name of the offsets file that
this server prepared. What the snapshot does not say is not believed. Where the server cannot look
(no package, no access) the report is kept for readers, and rows are kept until a later look.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from headwater.config.choices import LakeFormat
from headwater.config.lake import local_catalog
from headwater.errors import HeadwaterError, LakeSnapshotMissingError, RequestError
from headwater.lake.lakes import Opener, lake_format, lake_spec
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import BOUNDARY_PROPERTY, LakeBucket, TableIdentity
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.server.catalog.lake_offsets import offsets_from_json
from headwater.server.lake.offsets_files import OffsetsFiles

LOOK_S_MAX = 10.0
"""Time that a report waits for a look into the lake."""
LOOK_AGAIN_S = 300.0
"""Time between two looks for a snapshot that could not be checked."""
EVERYBODY = "*"
_PARENTS_MAX = 16
_OFFSETS_PROPERTY = "fluss-offsets"
_HINT = (
    "Rows that it is said to hold stay in the log until the lake could be looked into. Give the"
    " server the same lake as the tierer (serve --lake), with its package and credentials; or name"
    " the user of the tierer with serve --trust-tierers."
)
_events = Events("lake")


class Standing(StrEnum):
    """Say how far a report is believed."""

    CHECKED = "checked"
    UNSEEN = "unseen"
    """The lake could not be looked into."""
    ABSENT = "absent"
    """The lake does not have the snapshot."""


@dataclass(frozen=True, slots=True)
class Look:
    """Tell what a look into the lake showed."""

    standing: Standing
    ends: Mapping[LakeBucket, int]
    """How far the snapshot goes, by its own word."""
    reason: str = ""


class LakeChecks:
    """Look into lakes for the snapshots that tierers report, one look at a time."""

    def __init__(
        self,
        configs: Mapping[LakeFormat, Mapping[str, str]],
        files: OffsetsFiles,
        *,
        storage_id: str,
        trusted: str,
        opener: Opener,
        clock: Clock,
    ) -> None:
        self._configs = configs
        self._files = files
        self._storage_id = storage_id
        self._trusted = frozenset(filter(None, (each.strip() for each in trusted.split(","))))
        self._opener = opener
        self._clock = clock
        self._looks = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lake-look")
        self._tried: dict[int, float] = {}

    def trusts(self, user: str | None) -> bool:
        """Tell whether the operator has the reports of a user believed without a look."""
        return EVERYBODY in self._trusted or user in self._trusted

    def is_due(self, table_id: int) -> bool:
        """Tell whether it is time to look again for what could not be checked."""
        last = self._tried.get(table_id)
        return last is None or self._clock.monotonic() - last >= LOOK_AGAIN_S

    async def look(self, table: TableInfo, snapshot_id: int) -> Look:
        """Look for a snapshot, in a thread and not for long."""
        self._tried[table.table_id] = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        looking = loop.run_in_executor(self._looks, self._found, table, snapshot_id)
        try:
            async with asyncio.timeout(LOOK_S_MAX):
                seen = await asyncio.shield(looking)
        except TimeoutError:
            seen = Look(Standing.UNSEEN, {}, f"it did not answer within {LOOK_S_MAX:.0f} s")
        if seen.standing is not Standing.CHECKED:
            _events.warning(
                "lake snapshot not checked",
                table=str(table.path),
                snapshot=snapshot_id,
                reason=seen.reason,
                hint=_HINT,
            )
        return seen

    def close(self) -> None:
        """Begin no more looks."""
        self._looks.shutdown(wait=False, cancel_futures=True)

    def _found(self, table: TableInfo, snapshot_id: int) -> Look:
        """Look; whatever a library says of a lake must not stop the server."""
        try:
            return self._looked(table, snapshot_id)
        except LakeSnapshotMissingError as fault:
            return Look(Standing.ABSENT, {}, fault.message)
        except HeadwaterError as fault:
            return Look(Standing.UNSEEN, {}, fault.message)
        except Exception as fault:  # noqa: BLE001 - as above; the report is not believed
            return Look(Standing.UNSEEN, {}, f"{type(fault).__name__}: {fault}")

    def _looked(self, table: TableInfo, snapshot_id: int) -> Look:
        name = lake_format(table)
        config = self._configs[LakeFormat(name)]
        place = local_catalog(LakeFormat(name), config)
        if place is not None and not Path(place).exists():
            # Opening it would make it.
            return Look(Standing.ABSENT, {}, f"there is no lake at {place}")
        source = self._opener(name, config).source(lake_spec(table))
        found = source.snapshot(snapshot_id)
        if found is None:
            return Look(Standing.ABSENT, {}, f"the lake has no snapshot {snapshot_id}")
        if found.taken:
            return Look(Standing.UNSEEN, {}, f"others took rows away: {found.taken}")
        for _ in range(_PARENTS_MAX):
            said = self._said(found, table)
            if said is not None:
                return Look(Standing.CHECKED, said)
            # The tiering service of Apache Fluss compacts in a snapshot that need not say it again.
            found = None if found.parent_id is None else source.snapshot(found.parent_id)
            if found is None:
                break
        return Look(Standing.UNSEEN, {}, f"snapshot {snapshot_id} does not say how far it goes")

    def _said(self, found: LakeSnapshot, table: TableInfo) -> dict[LakeBucket, int] | None:
        """Return how far a snapshot goes by its own word, None if it does not say.

        That is nowhere, if it is of another table.
        """
        text = found.properties.get(_OFFSETS_PROPERTY)
        if BOUNDARY_PROPERTY not in found.properties and text is not None:
            inline = text.lstrip().startswith("{")
            offsets = (
                offsets_from_json(text)
                if inline
                else self._files.read(text, table_id=table.table_id)
            )
            return dict(offsets.ends) if offsets.table_id == table.table_id else {}
        boundary = found.boundary
        if boundary is None:
            return None
        if boundary.table != TableIdentity(self._storage_id, table.table_id):
            return {}
        return {bucket: held.end for bucket, held in boundary.ranges.items()}


def check_said(
    told: Mapping[LakeBucket, int], said: Mapping[LakeBucket, int], *, snapshot_id: int
) -> None:
    """Refuse a report that goes beyond what the snapshot says itself."""
    for bucket, end in sorted(told.items()):
        held = said.get(bucket, 0)
        if end > held:
            partition = (
                "" if bucket.partition_id is None else f" of partition {bucket.partition_id}"
            )
            raise RequestError(
                f"Lake snapshot {snapshot_id} is said to hold bucket {bucket.bucket}{partition} up"
                f" to offset {end}, but by its own word it ends at {held}.",
                hint="Report the offsets that the snapshot was committed with.",
            )
