"""Names of pyiceberg that it does not promise, each with what is relied upon."""

import struct

import pyarrow as pa
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.reader import DoubleReader
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    PyArrowFileIO,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import UNASSIGNED_SEQ, ManifestContent, ManifestFile, ManifestWriterV2
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import IntegerType, ListType, NestedField
from sqlalchemy import NullPool

from headwater.lake.iceberg.catalog import mend_doubles, open_catalog
from headwater.lake.iceberg.manifests import DeletesWriter

NESTED = Schema(
    NestedField(1, "a", IntegerType()),
    NestedField(2, "l", ListType(element_id=3, element_type=IntegerType())),
)


def test_doubles_of_manifests_are_read_in_full():
    mend_doubles()

    assert DoubleReader().read(new_decoder(struct.pack("<d", 0.1))) == 0.1


def test_a_manifest_writer_takes_its_content_from_two_names():
    assert DeletesWriter.content(object()) == ManifestContent.DELETES
    assert "_meta" in vars(ManifestWriterV2)
    assert isinstance(vars(ManifestWriterV2)["_meta"], property)


def test_a_manifest_of_the_commit_has_no_sequence_number_yet():
    assert UNASSIGNED_SEQ == -1
    assert ManifestFile.from_args(sequence_number=UNASSIGNED_SEQ).sequence_number == UNASSIGNED_SEQ


def test_the_plan_of_statistics_names_fields_by_id():
    plan = compute_statistics_plan(NESTED, {"write.metadata.metrics.column.a": "none"})

    assert plan[1].mode.type is MetricModeTypes.NONE
    assert plan[3].mode.type is MetricModeTypes.COUNTS
    assert parquet_path_to_id_mapping(NESTED) == {"a": 1, "l.list.element": 3}


def test_fresh_ids_go_level_by_level_and_stay():
    fresh = assign_fresh_schema_ids(NESTED)

    assert [field.field_id for field in fresh.fields] == [1, 2]
    assert assign_fresh_schema_ids(fresh) == fresh


def test_a_file_io_opens_the_file_system_of_a_location(tmp_path):
    scheme, netloc, path = PyArrowFileIO.parse_location(f"file://{tmp_path}/a b")

    assert path == f"{tmp_path}/a b"
    assert isinstance(PyArrowFileIO().fs_by_scheme(scheme, netloc), pa.fs.LocalFileSystem)


def test_a_catalog_in_a_database_holds_no_connections(config):
    catalog = open_catalog(config)

    assert isinstance(catalog, SqlCatalog)
    assert isinstance(catalog.engine.pool, NullPool)
