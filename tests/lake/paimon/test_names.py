"""What is used of pypaimon without being promised: one test for each name."""

import json

import pytest
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog import catalog_exception
from pypaimon.common.identifier import Identifier
from pypaimon.common.json_util import JSON
from pypaimon.manifest.manifest_file_manager import ManifestFileManager
from pypaimon.manifest.manifest_list_manager import ManifestListManager
from pypaimon.manifest.schema.manifest_entry import MANIFEST_ENTRY_SCHEMA
from pypaimon.manifest.schema.manifest_file_meta import MANIFEST_FILE_META_SCHEMA
from pypaimon.schema.data_types import DataField, DataTypeParser, PyarrowFieldParser
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.snapshot.snapshot import Snapshot
from pypaimon.utils.file_store_path_factory import canonical_data_file_path

from headwater.lake.paimon.manifests import (
    DataFile,
    Entry,
    entries_from_bytes,
    entries_to_bytes,
    snapshot_from_json,
)


@pytest.fixture
def tiered(tables):
    table = tables.keyed()
    table.tier([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    return table


def test_a_table_knows_its_files_path_schema_and_catalog(tiered, foreign):
    handle = foreign(tiered)

    assert handle.file_io.exists(f"{handle.table_path}/schema/schema-0")
    assert handle.schema_manager.get_schema(0).id == handle.table_schema.id == 0
    assert handle.catalog_environment.supports_version_management is False
    assert handle.snapshot_manager().get_latest_snapshot().id == 1


def test_a_catalog_keeps_its_file_system_where_schemas_are_guarded(config):
    catalog = CatalogFactory.create(dict(config))

    assert callable(catalog.file_io.try_to_write_atomic)
    assert catalog.catalog_options.to_map()["warehouse"] == config["warehouse"]


def test_missing_tables_and_databases_have_errors_of_their_own(config):
    catalog = CatalogFactory.create(dict(config))
    catalog.create_database("here", True)

    with pytest.raises(catalog_exception.TableNotExistException):
        catalog.get_table(Identifier.create("here", "nothing"))
    with pytest.raises(catalog_exception.DatabaseNotExistException):
        catalog.list_tables("nowhere")


def test_a_schema_is_written_as_json_under_these_names(tiered, foreign):
    node = json.loads(JSON.to_json(foreign(tiered).table_schema))

    assert set(node) >= {"id", "fields", "highestFieldId", "partitionKeys", "primaryKeys"}
    assert node["fields"][0] == {"id": 0, "name": "id", "type": "BIGINT NOT NULL"}


def test_types_are_parsed_from_json():
    parsed = DataTypeParser.parse_data_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")

    assert PyarrowFieldParser.from_paimon_type(parsed).tz == "UTC"
    assert DataField(1, "x", parsed, None).to_dict()["id"] == 1


def test_changes_of_schemas_are_made_by_these_functions():
    changes = (
        SchemaChange.add_column("a", DataTypeParser.parse_data_type("INT"), None),
        SchemaChange.rename_column("a", "b"),
        SchemaChange.drop_column("a"),
        SchemaChange.set_option("k", "v"),
    )

    assert [each.field_names for each in changes[:3]] == [["a"]] * 3
    assert Schema(fields=[], options={"k": "v"}).options == {"k": "v"}


def test_manifests_that_we_write_are_read(tiered, foreign):
    handle = foreign(tiered)
    snapshot = handle.snapshot_manager().get_latest_snapshot()
    (manifest,) = ManifestListManager(handle).read_delta(snapshot)

    (entry,) = ManifestFileManager(handle).read(manifest.file_name, drop_stats=False)

    assert (manifest.num_added_files, manifest.total_buckets) == (1, 1)
    assert (entry.file.row_count, entry.file.level, entry.file.delete_row_count) == (2, 0, 0)
    assert (entry.file.min_key.values, entry.file.max_key.values) == ([1], [2])
    assert entry.file.key_stats.min_values.get_field(0) == 1
    assert entry.file.value_stats.max_values.get_field(1) == "b"
    assert entry.file.value_stats.null_counts == [0, 0]
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (0, 1)


def test_the_schemas_of_manifests_have_the_fields_that_we_write(tiered, own):
    table = own(tiered)
    (entry,) = table.live(table.head())
    names = {field["name"] for field in MANIFEST_ENTRY_SCHEMA["fields"]}
    inner = MANIFEST_ENTRY_SCHEMA["fields"][-1]["type"]["fields"]

    assert set(entry.to_record()) == names
    assert set(entry.file.record) == {field["name"] for field in inner}
    assert {field["name"] for field in MANIFEST_FILE_META_SCHEMA["fields"]} >= set(
        table.all_manifests(table.head())[0].record
    )


def test_entries_come_back_as_they_were(tiered, own):
    table = own(tiered)
    entries = table.live(table.head())

    found = entries_from_bytes(entries_to_bytes(entries))

    assert found == entries
    assert isinstance(found[0], Entry)
    assert isinstance(found[0].file, DataFile)


def test_snapshots_that_we_write_are_read(tiered, own):
    snapshot = own(tiered).head()

    read = JSON.from_json(snapshot.to_json().decode(), Snapshot)

    assert (read.id, read.commit_user, read.commit_kind) == (1, "__fluss_lake_tiering", "APPEND")
    assert (read.total_record_count, read.delta_record_count) == (2, 2)
    assert snapshot_from_json(JSON.to_json(read)).properties == snapshot.properties


def test_a_data_file_lies_where_pypaimon_looks_for_it(tiered, foreign, own):
    table = own(tiered)
    (entry,) = table.live(table.head())

    path = canonical_data_file_path(foreign(tiered), (), entry.bucket, entry.file.name)

    assert path == table.file_path(entry)
    assert table.files.exists(path)
