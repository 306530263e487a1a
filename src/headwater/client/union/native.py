"""A plan divided for an engine that reads Parquet files by itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from headwater.client.union.split import FileGroup, NativePlan, ReadPlan, Tier, UnionSplit
from headwater.lake.split import LakeFile, LakeSplit

LOCAL = "file"
LOCAL_ONLY = frozenset({LOCAL})

IsTouched = Callable[[UnionSplit, LakeFile], bool]
_GroupKey = tuple[tuple[tuple[int, str], ...] | None, bool, bool]


def native_plan(
    plan: ReadPlan,
    *,
    key: tuple[str, ...],
    is_touched: IsTouched,
    schemes: frozenset[str] = LOCAL_ONLY,
) -> NativePlan:
    """Divide a plan; `is_touched` tells whether a file of a HYBRID split can hold a changed key.

    Files whose rows the tail may replace are read by the engine only if all of their split are:
    otherwise the reader, which has to fold the tail for the others, would give its rows twice.
    """
    divided = _Divided(is_touched=is_touched, schemes=schemes)
    for split in plan.splits:
        divided.add(split)
    return NativePlan(
        groups=tuple(
            FileGroup(files=tuple(files), is_touched=touched)
            for (_, _, touched), files in divided.groups.items()
        ),
        tail=tuple(divided.tail),
        others=tuple(divided.others),
        key=key,
    )


def scheme_of(path: str) -> str:
    """Return the scheme of the place where a file lies."""
    return LOCAL if path.startswith("/") else urlsplit(path).scheme


def local_path(path: str) -> str:
    """Return the path of a local file without its scheme, as file systems know it."""
    assert scheme_of(path) == LOCAL, path
    return path if path.startswith("/") else urlsplit(path).path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Divided:
    is_touched: IsTouched
    schemes: frozenset[str]
    groups: dict[_GroupKey, list[LakeFile]] = field(default_factory=dict)
    tail: list[UnionSplit] = field(default_factory=list)
    others: list[UnionSplit] = field(default_factory=list)

    def add(self, split: UnionSplit) -> None:
        if split.lake is None:
            self.tail.append(split)
        elif split.tier is Tier.LAKE_ONLY:
            self._add_lake(split, split.lake)
        elif all(map(self._is_native, split.lake.files)):
            self.tail.append(split)
            self._group(split.lake.files, touched=lambda file: self.is_touched(split, file))
        else:
            self.others.append(split)

    def _add_lake(self, split: UnionSplit, lake: LakeSplit) -> None:
        # What an engine can read stands alone, so that the others do not miss it.
        others = tuple(file for file in lake.files if not self._is_native(file))
        self._group(filter(self._is_native, lake.files), touched=lambda _: False)
        if others:
            self.others.append(replace(split, lake=replace(lake, files=others)))

    def _group(self, files: Iterable[LakeFile], *, touched: Callable[[LakeFile], bool]) -> None:
        for file in files:
            key = (file.names, bool(file.deletes), touched(file))
            self.groups.setdefault(key, []).append(file)

    def _is_native(self, file: LakeFile) -> bool:
        return file.is_native and all(
            scheme_of(path) in self.schemes for path in (file.path, *file.deletes)
        )
