"""Rows that others delete in a lake table: noticed by tierers, readers and audits."""

import json

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record
from pypaimon import CatalogFactory
from pypaimon.write.table_delete import TableDeleteByRowId

import headwater
from headwater.audit.report import Severity
from headwater.audit.tables import audit
from headwater.errors import LakeRowsDeletedError
from headwater.lake.iceberg.catalog import load_table, open_catalog
from headwater.lake.iceberg.commit import SnapshotChange, commit_change
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.paimon.catalog import PaimonTable
from headwater.lake.paimon.commit import Commit, commit_snapshot
from headwater.lake.spi import CHECKED_PROPERTY
from headwater.model.boundary import BOUNDARY_PROPERTY, LakeBucket
from headwater.runtime.clock import SystemClock
from headwater.tiering.progress import TurnEnded, TurnFailed
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.cli.commanding import Storage

SCHEMA = {"id": "BIGINT", "text": "STRING"}
ARROW = pa.schema([("id", pa.int64()), ("text", pa.string())])
ROWS = 60


@pytest.fixture(params=["iceberg", "paimon"])
def lake_format(request):
    return request.param


@pytest.fixture
def storage(tmp_path):
    with headwater.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def table(storage, lake_format):
    """Return a log table of which the lake holds all but the last rows."""
    options = {"table.datalake.enabled": True, "table.datalake.format": lake_format}
    made = storage.create_table("t", SCHEMA, buckets=1, options=options)
    made.append(rows(range(ROWS)))
    tier(storage)
    made.append(rows(range(ROWS, ROWS + 5)))
    return storage.table("t")


def rows(ids):
    return [{"id": each, "text": "x"} for each in ids]


def tier(storage):
    heard = []

    async def once(client):
        service = TieringService(client, LocalRunner(client), listener=heard.append)
        await service.run_once()

    storage.run(once)
    return next(news for news in reversed(heard) if isinstance(news, TurnEnded | TurnFailed))


def theirs(table, lake_format):
    """Return the lake table as the library of its format opens it for anybody."""
    prefix = f"table.datalake.{lake_format}."
    told = {
        key.removeprefix(prefix): value
        for key, value in table.info.descriptor.properties.items()
        if key.startswith(prefix)
    }
    if lake_format == "iceberg":
        return load_catalog("fluss-iceberg-catalog", **told).load_table("fluss.t")
    return CatalogFactory.create(told).get_table("fluss.t")


def arrow(ids):
    return pa.Table.from_pylist(rows(ids), schema=ARROW)


def write_paimon(table, ids, *, overwrites, text="x"):
    builder = table.new_batch_write_builder()
    if overwrites:
        builder = builder.overwrite({})
    writer, commit = builder.new_write(), builder.new_commit()
    given = [{"id": each, "text": text} for each in ids]
    writer.write_arrow(in_full(pa.Table.from_pylist(given, schema=writes(table))))
    commit.commit(writer.prepare_commit())


def writes(table):
    """Return the columns to write; keys are never null."""
    return pa.schema([each.with_nullable(each.name not in table.primary_keys) for each in ARROW])


def delete_positions(table):
    """Take rows of a file away by a deletion vector, as Spark and Flink write them."""
    (split,) = table.new_read_builder().new_scan().plan().splits()
    snapshot_id = table.snapshot_manager().get_latest_snapshot().id
    # pypaimon itself offers it for tables with row ids only; its files are the same for all.
    message = TableDeleteByRowId(table)._build_commit_message(
        (), split.bucket, {split.files[0].file_name: {1, 2}}, snapshot_id
    )
    table.new_batch_write_builder().new_commit().commit([message])


def delete_keys(table):
    """Take rows away by key; pypaimon does not count them in what it tells of a file."""
    marked = table.copy({"rowkind.field": "text"})
    write_paimon(marked, [3, 4], overwrites=False, text="-D")


def truncate(table):
    table.new_batch_write_builder().new_commit().truncate_table()


def in_full(given):
    """Add the columns that tiering adds."""
    count = given.num_rows
    zeros = [pa.array([0] * count, pa.int32()), pa.array([0] * count, pa.int64())]
    moments = pa.array([0] * count, pa.timestamp("ms", tz="UTC"))
    names = ("__bucket", "__offset", "__timestamp")
    for name, column in zip(names, (*zeros, moments), strict=True):
        given = given.append_column(pa.field(name, column.type, nullable=False), column)
    return given


def damages(lake_format):
    """Return ways to take rows of ours out: whole files, and parts of them."""
    if lake_format == "paimon":
        return [lambda table: write_paimon(table, range(3), overwrites=True)]
    return [
        lambda table: table.delete("id >= 0"),
        lambda table: table.delete("id < 10"),
        lambda table: table.overwrite(arrow(range(3))),
    ]


def test_deletes_of_positions_are_noticed_where_they_hold_for_files_of_ours(storage):
    options = {"table.datalake.enabled": True}
    table = storage.create_table("t", SCHEMA, buckets=1, options=options)
    table.append(rows(range(ROWS)))
    tier(storage)
    table = storage.table("t")
    lake, spec = Lakes().of(table.info), lake_spec(table.info)
    loaded = load_table(open_catalog(lake.config), spec.path)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"{loaded.location()}/data/deletes.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=7,
        file_size_in_bytes=1,
    )
    deletes.spec_id = loaded.spec().spec_id
    change = SnapshotChange(operation=Operation.DELETE, properties={}, added=[deletes])

    commit_change(loaded, change, on=source(table).snapshot(), clock=SystemClock())

    assert "deleted 7 rows" in source(table).snapshot().taken


def back(table, lake_format, snapshot_id):
    """Go back to a snapshot, as the error says."""
    if lake_format == "iceberg":
        theirs(table, lake_format).manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
    else:
        theirs(table, lake_format).rollback_to(snapshot_id)


def source(table):
    return Lakes().of(table.info).source(lake_spec(table.info))


def everything(table):
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def test_rows_that_others_delete_stop_tiering_and_are_found_and_still_read(
    storage, table, lake_format
):
    good = source(table).snapshot().snapshot_id
    for damage in damages(lake_format):
        damage(theirs(table, lake_format))

        ended = tier(storage)
        found = audit(storage, ["fluss.t"]).findings

        assert isinstance(ended.fault, LakeRowsDeletedError)
        assert "headwater lake drop" in str(ended.fault)
        assert any(
            each.severity is Severity.ERROR and "removed tiered rows" in each.message
            for each in found
        )
        assert everything(table) == [*range(ROWS + 5)]
        with pytest.raises(LakeRowsDeletedError):
            table.scan(mode="lake").to_arrow()
        back(table, lake_format, good)
    assert isinstance(tier(storage), TurnEnded)
    assert everything(table) == [*range(ROWS + 5)]


def test_they_are_found_as_well_below_a_round_of_a_tierer_that_did_not_look(
    storage, table, lake_format
):
    good = source(table).snapshot()
    damages(lake_format)[0](theirs(table, lake_format))
    blind(table, lake_format, good.boundary)
    told = storage.lake.snapshot("t")
    prepared = storage.lake.prepare("t", told.table_id, {LakeBucket(None, 0): ROWS})
    newest = source(table).snapshot()
    storage.lake.commit(told.table_id, newest.snapshot_id, prepared)

    found = audit(storage, ["fluss.t"]).findings

    assert newest.taken
    assert everything(table) == [*range(ROWS + 5)]
    assert any("removed tiered rows" in each.message for each in found)
    assert isinstance(tier(storage).fault, LakeRowsDeletedError)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_what_others_take_from_paimon_by_keys_and_positions_is_noticed(storage, key):
    options = {"table.datalake.enabled": True, "table.datalake.format": "paimon"}
    made = storage.create_table("t", SCHEMA, primary_key=key, buckets=1, options=options)
    write = made.upsert if key else made.append
    write(rows(range(ROWS)))
    tier(storage)
    table = storage.table("t")
    good = source(table).snapshot().snapshot_id
    for damage in [truncate, delete_positions, *([delete_keys] if key else [])]:
        damage(theirs(table, "paimon"))

        ended = tier(storage)
        found = audit(storage, ["fluss.t"]).findings

        assert isinstance(ended.fault, LakeRowsDeletedError), damage
        assert any("removed tiered rows" in each.message for each in found)
        assert everything(table) == [*range(ROWS)]
        back(table, "paimon", good)
    if key:
        write_paimon(theirs(table, "paimon"), [3, 1000], overwrites=False)
    assert isinstance(tier(storage), TurnEnded)


def test_commands_end_with_an_error_that_names_the_table_the_cause_and_the_remedy(
    tmp_path, storage, table, lake_format
):
    command = Storage(str(tmp_path))
    damages(lake_format)[0](theirs(table, lake_format))
    storage.close()

    tiered = command("tier", "--once", "--here")
    as_json = command("tier", "--once", "--here", "-o", "json")
    audited = command("audit")

    told = json.loads(as_json.stdout)
    assert tiered.exit_code == as_json.exit_code == 5
    for said in (" ".join(tiered.stderr.split()), told["error"]):
        assert "fluss.t" in said
        assert "Others removed tiered rows from the lake table fluss.t" in said
        assert "rollback" in said
        assert "headwater lake drop fluss.t" in said
    assert audited.exit_code == 9
    assert "removed tiered rows" in " ".join(audited.stdout.split())


def blind(table, lake_format, boundary):
    """Commit a snapshot as tierers did that did not look at what others do."""
    properties = {BOUNDARY_PROPERTY: boundary.to_json()}
    lake, spec = Lakes().of(table.info), lake_spec(table.info)
    if lake_format == "iceberg":
        change = SnapshotChange(operation=Operation.APPEND, properties=properties)
        loaded = load_table(open_catalog(lake.config), spec.path)
        commit_change(loaded, change, on=source(table).snapshot(), clock=SystemClock())
        return
    opened = PaimonTable.open(lake.config, spec)
    commit = Commit(entries=(), user="__fluss_lake_tiering", kind="APPEND", properties=properties)
    commit_snapshot(opened, commit, on=opened.head(), now_ms=1)


def test_what_others_append_delete_again_and_compact_is_theirs(storage, table, lake_format):
    seen = theirs(table, lake_format)
    if lake_format == "iceberg":
        seen.append(arrow([1000, 1001]))
        seen.delete("id >= 1000")
    else:
        write_paimon(seen, [1000, 1001], overwrites=False)

    ended = tier(storage)

    assert isinstance(ended, TurnEnded)
    newest = source(table).snapshot()
    assert not newest.taken
    assert newest.properties[CHECKED_PROPERTY]
