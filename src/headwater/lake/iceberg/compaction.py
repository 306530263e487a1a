"""Which files are worth writing anew: decided, not done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from headwater.lake.iceberg.parquet import ParquetSettings, number
from headwater.lake.iceberg.planning import Planned
from headwater.lake.iceberg.tasks import scoped_path

_SMALL_SHARE = 0.75
_DELETED_SHARE_MAX = 0.1
_SMALL_FILES_MIN = 5
_DELETE_FILES_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """Say from when on files are worth writing anew."""

    file_bytes: int
    """The size that files are to have."""
    small_files_min: int
    """So many small files of a bucket are made one."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "CompactionSettings":
        """Read the properties of a table."""
        return cls(
            file_bytes=ParquetSettings.of(properties).file_bytes,
            small_files_min=number(
                properties, "headwater.compaction.small-files-min", _SMALL_FILES_MIN
            ),
        )


def worth_rewriting(
    files: Sequence[Planned], settings: CompactionSettings
) -> list[tuple[Planned, ...]]:
    """Return groups of files, each of one bucket and about the size of one file."""
    found: list[tuple[Planned, ...]] = []
    for _, alike in groupby(files, key=lambda each: (each.partition, each.bucket)):
        chosen = _chosen(list(alike), settings)
        found += _packed(chosen, settings)
    return found


def _chosen(files: Sequence[Planned], settings: CompactionSettings) -> list[Planned]:
    small = [each for each in files if _is_small(each, settings)]
    is_worth = len(small) >= settings.small_files_min
    return [each for each in files if _is_worn(each) or (is_worth and _is_small(each, settings))]


def _is_small(planned: Planned, settings: CompactionSettings) -> bool:
    return planned.held.file.file_size_in_bytes < settings.file_bytes * _SMALL_SHARE


def _is_worn(planned: Planned) -> bool:
    """Tell whether reading the file means to skip many rows, or to read many files of deletes."""
    file, deletes = planned.held
    deleted = sum(each.record_count for each in deletes if scoped_path(each) == file.file_path)
    return len(deletes) > _DELETE_FILES_MAX or deleted > file.record_count * _DELETED_SHARE_MAX


def _packed(files: Sequence[Planned], settings: CompactionSettings) -> list[tuple[Planned, ...]]:
    packs: list[list[Planned]] = []
    size = 0
    for each in files:
        size += each.held.file.file_size_in_bytes
        if not packs or size > settings.file_bytes:
            packs.append([])
            size = each.held.file.file_size_in_bytes
        packs[-1].append(each)
    return [tuple(pack) for pack in packs if len(pack) > 1 or _is_worn(pack[0])]
