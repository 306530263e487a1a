"""Digests of the rows of lake snapshots; a file is read once, however many of them hold it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from headwater.audit.digest import NOTHING, Digest, RowHasher
from headwater.audit.lakes.groups import Group, Grouping
from headwater.errors import CorruptFileError, HeadwaterError
from headwater.lake.spi import LakeSource
from headwater.lake.split import LakeSplit
from headwater.runtime.aside import aside

_Key = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Hold what the rows of a group in one snapshot add up to."""

    digest: Digest = NOTHING
    fault: HeadwaterError | None = None
    """Why some of the rows could not be read."""


@dataclass(slots=True)
class LakeReading:
    """Read the rows of one lake table as digests."""

    source: LakeSource
    hasher: RowHasher
    is_keyed: bool
    _known: dict[_Key, GroupRows] = field(default_factory=dict)

    async def of(self, splits: Sequence[LakeSplit], grouping: Grouping) -> dict[Group, GroupRows]:
        """Return what the rows of a snapshot add up to, by group."""
        found: dict[Group, GroupRows] = {}
        for split in splits:
            group = grouping.of_split(split)
            for part in self.parts(split):
                rows = await self._part(part)
                held = found.get(group, GroupRows())
                found[group] = GroupRows(held.digest + rows.digest, held.fault or rows.fault)
        return found

    def parts(self, split: LakeSplit) -> Iterator[LakeSplit]:
        """Yield the smallest pieces of a split that can be read alone."""
        if self.is_keyed:
            yield split
            return
        for file in split.files:
            yield replace(split, files=(file,))

    def batches(self, part: LakeSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece; what is wrong with its files is an error of ours."""
        try:
            yield from self.source.read(part)
        except (pa.ArrowException, OSError) as fault:
            names = ", ".join(file.path for file in part.files[:3])
            said = " ".join(str(fault).split())
            raise CorruptFileError(
                f"The lake file {names} cannot be read: {said}.",
                hint="Restore it from a copy, or tier the table anew.",
            ) from fault

    async def _part(self, part: LakeSplit) -> GroupRows:
        key = tuple((file.path, file.deletes) for file in part.files)
        if key not in self._known:
            self._known[key] = await aside(self._read, part)
        return self._known[key]

    def _read(self, part: LakeSplit) -> GroupRows:
        digest = NOTHING
        try:
            for rows in self.batches(part):
                digest = digest + self.hasher.digest(rows)
        except HeadwaterError as fault:
            return GroupRows(digest, fault)
        return GroupRows(digest)
