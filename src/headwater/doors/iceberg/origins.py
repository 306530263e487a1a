"""What a load builds on: the table as its lake has it, or one that is made of its descriptor.

Nothing of it is changed here: columns that the next round of tiering would add are added to a copy
of the metadata, as that round will add them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import UUID

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from headwater import errors
from headwater.config.options import DATALAKE_FORMAT
from headwater.lake.files import decoded
from headwater.lake.iceberg import layout
from headwater.lake.iceberg.catalog import found_table, load_table, open_catalog, reached
from headwater.lake.iceberg.files import HeldFile, IcebergPlace, lent, opened_io
from headwater.lake.iceberg.manifests import listed_manifests
from headwater.lake.iceberg.plan import planned_files
from headwater.lake.iceberg.read import FORMAT
from headwater.lake.iceberg.served import tails_root
from headwater.lake.lakes import Lakes
from headwater.lake.spi import LakeTableSpec
from headwater.model import TableInfo
from headwater.read.view import TableView, lost_snapshot

_UUID_BYTES = 16
_UNTIERED = "headwater-untiered"
# What decides how new files are named, which in the folder of a door nothing does.
_NAMING = ("write.data.path", "write.metadata.path", "write.object-storage.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOrigin:
    """The Iceberg table that a load adds its tail to."""

    metadata: TableMetadata
    """With the columns that the table has at the position."""
    spec: LakeTableSpec
    config: Mapping[str, str] = field(repr=False)
    lent: Mapping[str, str] = field(repr=False)
    snapshot: Snapshot | None = None
    """That of the lake which is read; None if all rows come from the door."""
    manifests: tuple[ManifestFile, ...] = ()
    held: Mapping[str, HeldFile] = field(default_factory=dict)
    """By key, the files of the snapshot by their paths."""
    source: str = ""
    """The file of metadata that it was read from."""
    root: str
    """Where doors keep their folders for this table."""

    def io(self) -> FileIO:
        """Open the files of the table and of the door."""
        return opened_io(self.root.rpartition("/")[0], self.config, self.lent)

    def place(self, location: str) -> IcebergPlace:
        """Describe the table to those who write files elsewhere."""
        ids = layout.column_ids_of(self.metadata.properties)
        assert ids is not None, "set where the origin is made"
        return IcebergPlace(
            location=location,
            schema=self.metadata.schema(),
            spec=self.metadata.spec(),
            ids=ids,
            properties={
                name: value
                for name, value in self.metadata.properties.items()
                if not name.startswith(_NAMING)
            },
            io_properties=self.lent,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginPlaces:
    """Where tables are found, and where rows go that belong to no Iceberg lake."""

    lakes: Lakes = field(default_factory=Lakes)
    directory: str | None = None
    """A local directory; None if only the warehouses of lakes are used."""

    def origin_of(self, view: TableView) -> TableOrigin:
        """Return what a view of a table is built on; may block."""
        snapshot = view.snapshot
        if snapshot is not None and snapshot.format == FORMAT:
            return _of_lake(view, snapshot.snapshot_id, self.lakes.config_of(view.table))
        return _of_descriptor(view.table, self._untiered(view.table))

    def roots_of(self, table: TableInfo) -> Iterator[tuple[FileIO, str]]:
        """Yield where doors may have left files of a table; may block."""
        if DATALAKE_FORMAT.of(table.descriptor.properties) == FORMAT:
            config = self.lakes.config_of(table)
            found = found_table(open_catalog(config), table.path)
            if found is not None:
                io = opened_io(found.location(), config, lent(found, config))
                yield io, tails_root(found.location())
        with suppress(errors.UnsupportedError):
            place = self._untiered(table)
            yield opened_io(place, {"warehouse": place}, {}), tails_root(place)

    def _untiered(self, table: TableInfo) -> str:
        """Return where files of tables that are in no Iceberg lake go, as a location."""
        lake = DATALAKE_FORMAT.of(table.descriptor.properties)
        found = "" if lake is None else self.lakes.config_of(table).get("warehouse", "")
        if not found.startswith(("/", "file:/")):
            found = self.directory or ""
        if not found:
            raise errors.UnsupportedError(
                f"Nothing of {table.path} is in an Iceberg lake yet, and the door has no local "
                "directory for its rows.",
                hint="Tier the table to Iceberg first, or start the door with --tail-directory, "
                "and name a directory that its readers see as well.",
            )
        place = found if found.startswith("file:") else f"file://{found}"
        return f"{place.rstrip('/')}/{_UNTIERED}"


def _of_lake(view: TableView, snapshot_id: int, config: Mapping[str, str]) -> TableOrigin:
    spec = _spec_of(view.table)
    table = load_table(open_catalog(config), spec.path)
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise lost_snapshot(view.table, snapshot_id)
    what = f"the Iceberg table {spec.path}"
    with reached(f"Reading the file lists of {what}"), decoded(what, SystemError):
        manifests = tuple(listed_manifests(snapshot, table.io))
        files = planned_files(table, spec, snapshot_id) if view.table.is_keyed else []
    return TableOrigin(
        metadata=_identified(_evolved(table, spec), view.table),
        spec=spec,
        config=config,
        lent=lent(table, config),
        snapshot=snapshot,
        manifests=manifests,
        held={each.held.file.file_path: each.held for each in files},
        source=table.metadata_location,
        root=tails_root(table.location()),
    )


def _spec_of(table: TableInfo) -> LakeTableSpec:
    descriptor = table.descriptor
    return LakeTableSpec(
        path=table.path,
        schema=table.schema,
        partition_keys=descriptor.partition_keys,
        bucket_keys=descriptor.bucket_keys or descriptor.physical_primary_key,
        bucket_count=table.bucket_count,
        comment=descriptor.comment,
    )


def _evolved(table: Table, spec: LakeTableSpec) -> TableMetadata:
    """Return the metadata with the columns that the next round gives to the lake table."""
    metadata = table.metadata
    evolution = layout.evolved(
        layout.IcebergTableState(
            schema=metadata.schema(),
            parted=metadata.spec(),
            ids=layout.column_ids_of(metadata.properties),
            column_id_last=metadata.last_column_id,
            schema_id_last=max(schema.schema_id for schema in metadata.schemas),
            format_version=metadata.format_version,
        ),
        spec,
    )
    if evolution is None:
        return metadata
    properties = {**metadata.properties, layout.COLUMN_IDS: evolution.ids.to_json()}
    changed: dict[str, object] = {"properties": properties}
    if evolution.schema.fields != metadata.schema().fields:
        changed |= {
            "schemas": [*metadata.schemas, evolution.schema],
            "current_schema_id": evolution.schema.schema_id,
            "last_column_id": max(metadata.last_column_id, evolution.schema.highest_field_id),
        }
    return metadata.model_copy(update=changed)


def _identified(metadata: TableMetadata, table: TableInfo) -> TableMetadata:
    """Give the table an identity of its own, which stays when tiering makes its lake table."""
    text = f"{table.path}\0{table.table_id}"
    digest = hashlib.sha256(text.encode()).digest()[:_UUID_BYTES]
    return metadata.model_copy(update={"table_uuid": UUID(bytes=digest, version=5)})


# Tables of which no Iceberg lake holds anything: never tiered, or tiered to Paimon.


def _of_descriptor(table: TableInfo, place: str) -> TableOrigin:
    """Make a table for rows that all come from the door."""
    # Rows have the buckets of the table, which are no buckets to Iceberg unless its lake is.
    spec = replace(_spec_of(table), bucket_keys=())
    schema = _schema_of(spec)
    parted = layout.partition_spec(spec, schema)
    keys = [each for each in parted.fields if each.name in spec.partition_keys]
    metadata = new_table_metadata(
        schema,
        PartitionSpec(*keys),
        UNSORTED_SORT_ORDER,
        f"{place}/{table.path.database}/{table.path.table}-{table.table_id}",
        layout.new_properties(spec, schema),
    )
    return TableOrigin(
        metadata=_identified(metadata, table),
        spec=spec,
        config={"warehouse": place},
        lent={},
        root=tails_root(place),
    )


def _schema_of(spec: LakeTableSpec) -> Schema:
    try:
        return layout.new_schema(spec)
    except errors.UnsupportedError as fault:
        raise errors.UnsupportedError(
            fault.message, hint="Read the table with Spark, DuckDB or a client of Headwater."
        ) from fault
