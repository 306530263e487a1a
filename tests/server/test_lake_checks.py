"""Reports of lake snapshots are believed as far as the lake's own snapshot says the same."""

import json
from dataclasses import replace

import pytest

from headwater.config.lake import local_catalog
from headwater.config.options import LakeFormat
from headwater.errors import RequestError
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import BOUNDARY_PROPERTY, LakeBucket
from headwater.server.catalog.lake_entries import reported_snapshot
from headwater.server.lake import Standing
from headwater.tiering.round import OFFSETS_PROPERTY
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.union.storage import Storage

BUCKET = LakeBucket(None, 0)
ROWS = 40


@pytest.fixture(params=["iceberg", "paimon"])
def lake_format(request):
    return request.param


@pytest.fixture
def storage(tmp_path):
    opened = Storage.open(tmp_path)
    yield opened
    opened.client.close()


@pytest.fixture
def table(storage, lake_format):
    """Return a table whose log is larger than it may be, with rows that are in no lake."""
    made = storage.client.create_table(
        "t",
        {"id": "BIGINT"},
        buckets=1,
        options={
            "table.datalake.enabled": True,
            "table.datalake.format": lake_format,
            "table.log.retention.bytes": "64b",
        },
    )
    for number in range(ROWS):
        made.append([{"id": number}])
    return made


def tier(storage):
    async def once(client):
        await TieringService(client, LocalRunner(client)).run_once()

    storage.client.run(once)


def expired_up_to(storage):
    """Have retention delete what it may, and return where the log begins then."""
    storage.client.run(lambda _: storage.server.upkeep.expire_rows())
    ((_, tablet),) = storage.server.tablets.all_open()
    return tablet.start_offset


def report(storage, snapshot_id, end):
    lake = storage.client.lake
    lake.commit(1, snapshot_id, lake.prepare("t", 1, {BUCKET: end}))


def latest(storage):
    return storage.server._services.catalog.lake.latest(1)


def test_a_report_of_a_snapshot_that_no_lake_has_deletes_no_rows(storage, table):
    report(storage, 4711, ROWS)
    forged = expired_up_to(storage)
    told = latest(storage).standing
    tier(storage)

    assert forged == 0
    assert told == Standing.ABSENT
    assert table.scan().to_arrow().num_rows == ROWS
    assert latest(storage).standing == Standing.CHECKED
    assert expired_up_to(storage) > 0


def test_a_report_that_says_more_than_its_snapshot_is_refused(storage, table):
    tier(storage)
    held = latest(storage)
    table.append([{"id": 99}])

    with pytest.raises(RequestError, match=f"up to offset {ROWS + 1}.*ends at {ROWS}"):
        report(storage, held.snapshot_id, ROWS + 1)

    assert latest(storage) == held


def test_a_lake_that_cannot_be_looked_into_keeps_rows_until_it_can(storage, table):
    tier(storage)
    checks = storage.server._services.lake.checks
    reached, checks._opener = checks._opener, unreachable
    storage.server._services.catalog.lake._snapshots.clear()
    snapshot = Lakes().of(table.info).source(lake_spec(table.info)).snapshot()

    report(storage, snapshot.snapshot_id, ROWS)
    before = expired_up_to(storage)
    checks._opener = reached
    checks._tried.clear()

    assert (before, latest(storage).standing) == (0, Standing.UNSEEN)
    assert expired_up_to(storage) > 0
    assert latest(storage).standing == Standing.CHECKED


def unreachable(_name, _config):
    raise OSError("no way there")


def test_an_operator_may_trust_tierers(storage, table):
    storage.server._services.lake.checks._trusted = frozenset({"*"})

    report(storage, 4711, ROWS)

    assert expired_up_to(storage) > 0


def test_the_tiering_service_of_fluss_says_it_by_the_file_that_was_prepared(storage, table):
    checks = storage.server._services.lake.checks
    path = storage.client.lake.prepare("t", 1, {BUCKET: 7})
    told = LakeSnapshot(
        snapshot_id=1,
        parent_id=None,
        committed_ms=0,
        boundary=None,
        row_count=7,
        file_count=1,
        byte_count=1,
        properties={OFFSETS_PROPERTY: path},
    )
    inline = json.dumps({"version": 1, "table_id": 1, "bucket_offsets": [6]})

    assert checks._said(told, table.info) == {BUCKET: 7}
    assert checks._said(replace(told, properties={OFFSETS_PROPERTY: inline}), table.info) == {
        BUCKET: 6
    }
    assert checks._said(replace(told, properties={}), table.info) is None
    with pytest.raises(RequestError):
        checks._said(replace(told, properties={OFFSETS_PROPERTY: "/etc/passwd"}), table.info)


def test_a_boundary_of_another_storage_says_nothing_of_this_one(storage, table):
    tier(storage)
    checks = storage.server._services.lake.checks
    own = Lakes().of(table.info).source(lake_spec(table.info)).snapshot()
    assert BOUNDARY_PROPERTY in own.properties
    other = replace(own.boundary, table=replace(own.boundary.table, storage="another"))

    assert checks._said(own, table.info) == {BUCKET: ROWS}
    assert checks._said(replace(own, boundary=other), table.info) == {}


def test_reports_of_before_are_believed_as_they_were(storage, table):
    report(storage, 4711, ROWS)
    node = json.loads(latest(storage).details())
    older = {name: node[name] for name in ("tiered", "tiered_path", "readable", "readable_path")}

    def read(details):
        return reported_snapshot(1, 4711, committed_ms=0, details=json.dumps(details))

    assert read(older).held_ends == {BUCKET: ROWS}
    assert read(node).held_ends == {}


def test_looking_makes_no_lake(storage, table, tmp_path, lake_format):
    report(storage, 4711, ROWS)

    assert not (tmp_path / "lake" / lake_format).exists()
    rest = {"type": "rest", "uri": "http://rest"}
    assert local_catalog(LakeFormat.ICEBERG, rest) is None
    assert local_catalog(LakeFormat.PAIMON, {"metastore": "jdbc", "warehouse": "/w"}) is None
