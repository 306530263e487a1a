"""A plan divided for an engine that reads Parquet files by itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from headwater.client.union.split import FileGroup, NativePlan, ReadPlan, Tier, UnionSplit
from headwater.lake.split import UNKNOWN_BUCKET, LakeFile, LakeSplit

LOCAL = "file"
LOCAL_ONLY = frozenset({LOCAL})

IsTouched = Callable[[UnionSplit, LakeFile], bool]


def native_plan(
    plan: ReadPlan,
    *,
    key: tuple[str, ...],
    is_touched: IsTouched,
    schemes: frozenset[str] = LOCAL_ONLY,
    tells_keys_apart: bool = True,
) -> NativePlan:
    """Divide a plan; `is_touched` tells whether a file of a HYBRID split can hold a changed key.

    Files whose rows the tail may replace are read by the engine only if all of their split are:
    otherwise the reader, which has to fold the tail for the others, would give its rows twice.
    Engines take 0.0 and -0.0 for one key, and know several kinds of NaN or one: with such keys
    `tells_keys_apart` is False, and touched files are left to the reader.
    """
    divided = _Divided(is_touched=is_touched, schemes=schemes, tells_keys_apart=tells_keys_apart)
    for split in plan.splits:
        divided.add(split)
    return NativePlan(
        groups=tuple(each.group(files) for each, files in divided.groups.items()),
        tail=tuple(divided.tail),
        others=tuple(divided.others),
        key=key,
    )


def scheme_of(path: str) -> str:
    """Return the scheme of the place where a file lies."""
    return LOCAL if path.startswith("/") else path.partition(":")[0]


def local_path(path: str) -> str:
    """Return the path of a local file without its scheme, as file systems know it."""
    assert scheme_of(path) == LOCAL, path
    # By hand, since a path may hold what would mean something in an address, such as '#'.
    rest = path.removeprefix(f"{LOCAL}:")
    if not rest.startswith("//"):
        return rest
    return "/" + rest.removeprefix("//").partition("/")[2]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Say what files that are read in one go have in common."""

    names: tuple[tuple[int, str], ...] | None
    has_deletes: bool
    is_touched: bool
    # Of touched files also where they are: only the keys changed there have to be looked for.
    partition: tuple[tuple[str, str], ...] = ()
    bucket: int = UNKNOWN_BUCKET

    def group(self, files: Iterable[LakeFile]) -> FileGroup:
        return FileGroup(
            files=tuple(files),
            is_touched=self.is_touched,
            partition=self.partition,
            bucket=self.bucket,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Divided:
    is_touched: IsTouched
    schemes: frozenset[str]
    tells_keys_apart: bool
    groups: dict[_Alike, list[LakeFile]] = field(default_factory=dict)
    tail: list[UnionSplit] = field(default_factory=list)
    others: list[UnionSplit] = field(default_factory=list)

    def add(self, split: UnionSplit) -> None:
        if split.lake is None:
            self.tail.append(split)
        elif split.tier is Tier.LAKE_ONLY:
            self._add_lake(split, split.lake)
        else:
            self._add_hybrid(split, split.lake)

    def _add_lake(self, split: UnionSplit, lake: LakeSplit) -> None:
        # What an engine can read stands alone, so that the others do not miss it.
        others = tuple(file for file in lake.files if not self._is_native(file))
        for file in filter(self._is_native, lake.files):
            self._group(file, _Alike(file.names, bool(file.deletes), is_touched=False))
        if others:
            self.others.append(replace(split, lake=replace(lake, files=others)))

    def _add_hybrid(self, split: UnionSplit, lake: LakeSplit) -> None:
        if not all(map(self._is_native, lake.files)):
            self.others.append(split)
            return
        touched = [self.is_touched(split, file) for file in lake.files]
        if any(touched) and not self.tells_keys_apart:
            self.others.append(split)
            return
        self.tail.append(split)
        for file, is_touched in zip(lake.files, touched, strict=True):
            alike = _Alike(file.names, bool(file.deletes), is_touched)
            here = replace(alike, partition=lake.partition, bucket=split.bucket)
            self._group(file, here if is_touched else alike)

    def _group(self, file: LakeFile, alike: _Alike) -> None:
        self.groups.setdefault(alike, []).append(file)

    def _is_native(self, file: LakeFile) -> bool:
        return file.is_native and all(
            scheme_of(path) in self.schemes for path in (file.path, *file.deletes)
        )
