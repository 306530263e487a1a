"""Few manifests in the place of many, so that planning and committing stay quick."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.manifest import UNASSIGNED_SEQ, ManifestContent, ManifestFile

from headwater.lake.iceberg.manifests import Manifests
from headwater.lake.iceberg.parquet import number

_COUNT_MIN = 30
_BYTES_MAX = 8 * 1024 * 1024


def merged_manifests(
    listed: Sequence[ManifestFile], manifests: Manifests, *, count_min: int | None
) -> list[ManifestFile]:
    """Return manifests that list the same, merged where there are many small ones.

    Those of the snapshot that is being written stay as they are: their entries are new.
    """
    properties = manifests.metadata.properties
    bytes_max = number(properties, "commit.manifest.target-size-bytes", _BYTES_MAX)
    if count_min is None:
        count_min = number(properties, "commit.manifest.min-count-to-merge", _COUNT_MIN)
    found: list[ManifestFile] = []
    for alike in _alike(listed):
        if len(alike) < max(count_min, 2):
            found += alike
            continue
        for together in _packed(alike, bytes_max):
            found.append(together[0] if len(together) == 1 else manifests.merged(together))
    merged = [each for each in listed if each.sequence_number == UNASSIGNED_SEQ]
    return [*merged, *found]


def is_worth_merging(
    listed: Sequence[ManifestFile], properties: Mapping[str, str], *, count_min: int
) -> bool:
    """Tell whether there would be fewer manifests after merging."""
    bytes_max = number(properties, "commit.manifest.target-size-bytes", _BYTES_MAX)
    return any(
        len(alike) >= count_min and len(_packed(alike, bytes_max)) < len(alike)
        for alike in _alike(listed)
    )


def _alike(listed: Iterable[ManifestFile]) -> list[list[ManifestFile]]:
    groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = defaultdict(list)
    for manifest in listed:
        if manifest.sequence_number != UNASSIGNED_SEQ:
            groups[manifest.content, manifest.partition_spec_id].append(manifest)
    return list(groups.values())


def _packed(listed: Sequence[ManifestFile], bytes_max: int) -> list[list[ManifestFile]]:
    """Put manifests together up to a size, small ones first."""
    packs: list[list[ManifestFile]] = [[]]
    size = 0
    for manifest in sorted(listed, key=lambda each: each.manifest_length):
        if packs[-1] and size + manifest.manifest_length > bytes_max:
            packs.append([])
            size = 0
        packs[-1].append(manifest)
        size += manifest.manifest_length
    return packs
