"""Snapshots of a lake table as their files tell them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.model.boundary import BOUNDARY_PROPERTY, Boundary, boundary_from_json
from headwater.model.type_json import Json, int_of, object_of, text_of

TIERING_USER = "__fluss_lake_tiering"
"""The committer that readers of Apache Fluss look for."""
KEEPER_USER = "headwater-maintenance"
APPEND, COMPACT = "APPEND", "COMPACT"
FILES_PROPERTY = "headwater.files"
BYTES_PROPERTY = "headwater.bytes"
PARENT_PROPERTY = "headwater.parent"
_VERSION = 3
_CARRIED = ("indexManifest", "watermark", "statistics", "nextRowId")


@dataclass(frozen=True, slots=True)
class ListFile:
    """Name a list of manifests, with its size where the snapshot tells it."""

    name: str
    byte_count: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """Hold a snapshot as it stands in its file."""

    node: Mapping[str, Json]

    @property
    def snapshot_id(self) -> int:
        """Return the id; each snapshot has the next one."""
        return int_of(self.node, "id")

    @property
    def schema_id(self) -> int:
        """Return the newest schema when it was committed."""
        return int_of(self.node, "schemaId")

    @property
    def lists(self) -> tuple[ListFile, ListFile]:
        """Return its lists of manifests: those before it, and its own."""
        return self._list("baseManifestList"), self._list("deltaManifestList")

    @property
    def changelog_list(self) -> ListFile | None:
        """Return its list of changelog manifests, if it has any."""
        key = "changelogManifestList"
        return self._list(key) if isinstance(self.node.get(key), str) else None

    def _list(self, key: str) -> ListFile:
        byte_count = self.node.get(f"{key}Size")
        return ListFile(
            text_of(self.node, key), byte_count if isinstance(byte_count, int) else None
        )

    @property
    def index_manifest(self) -> str | None:
        """Return the name of its list of index files, if it has any."""
        name = self.node.get("indexManifest")
        return name if isinstance(name, str) else None

    @property
    def statistics(self) -> str | None:
        """Return the name of its file of statistics, if it has any."""
        name = self.node.get("statistics")
        return name if isinstance(name, str) else None

    @property
    def committed_ms(self) -> int:
        """Return when it was committed."""
        return int_of(self.node, "timeMillis")

    @property
    def row_count(self) -> int:
        """Return the rows of its files."""
        return int_of(self.node, "totalRecordCount", default=0)

    @property
    def user(self) -> str:
        """Return who committed it."""
        return text_of(self.node, "commitUser")

    @property
    def kind(self) -> str:
        """Return what it did: APPEND, COMPACT or OVERWRITE; nothing if it does not say."""
        found = self.node.get("commitKind")
        return found if isinstance(found, str) else ""

    @property
    def uuid(self) -> str | None:
        """Return what tells it from another snapshot of the same id."""
        found = self.node.get("uuid")
        return found if isinstance(found, str) else None

    @property
    def properties(self) -> Mapping[str, str]:
        """Return what its committer attached."""
        node = self.node.get("properties")
        return {key: str(value) for key, value in node.items()} if isinstance(node, dict) else {}

    @property
    def own_boundary(self) -> Boundary | None:
        """Return the boundary that it carries itself."""
        text = self.properties.get(BOUNDARY_PROPERTY)
        return None if text is None else boundary_from_json(text)

    def to_json(self) -> bytes:
        """Write the snapshot as its file holds it."""
        return json.dumps(self.node, indent=2, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Say what the next snapshot is made of."""

    schema_id: int
    base_list: tuple[str, int]
    delta_list: tuple[str, int]
    row_count_added: int
    user: str
    kind: str
    committed_ms: int
    properties: Mapping[str, str]
    uuid: str


def next_snapshot(on: SnapshotFile | None, draft: Draft) -> SnapshotFile:
    """Return the snapshot that directly follows another one, or the first."""
    snapshot_id = 1 if on is None else on.snapshot_id + 1
    carried = {} if on is None else {key: on.node[key] for key in _CARRIED if key in on.node}
    node: dict[str, Json] = {
        "version": _VERSION,
        "uuid": draft.uuid,
        "id": snapshot_id,
        "schemaId": draft.schema_id,
        "baseManifestList": draft.base_list[0],
        "baseManifestListSize": draft.base_list[1],
        "deltaManifestList": draft.delta_list[0],
        "deltaManifestListSize": draft.delta_list[1],
        "commitUser": draft.user,
        # Grows with every snapshot, so that each one has its own.
        "commitIdentifier": snapshot_id,
        "commitKind": draft.kind,
        "timeMillis": draft.committed_ms,
        "totalRecordCount": (0 if on is None else on.row_count) + draft.row_count_added,
        "deltaRecordCount": draft.row_count_added,
        **carried,
        "properties": dict(draft.properties),
    }
    return SnapshotFile(node)


def snapshot_from_json(text: str | bytes) -> SnapshotFile:
    """Read a snapshot file, or say that it cannot be read."""
    try:
        snapshot = SnapshotFile(object_of(json.loads(text), what="snapshot"))
        assert snapshot.snapshot_id > 0
        assert all(each.name for each in snapshot.lists)
    except (ValueError, InvalidTableError, AssertionError) as fault:
        raise CorruptFileError(f"A snapshot of a lake table cannot be read: {fault}.") from fault
    return snapshot
