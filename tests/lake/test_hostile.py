"""Options of tables and properties of lake tables that lead a library to code or other places."""

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from pyiceberg.catalog import load_catalog

import headwater
import headwater.duckdb
import headwater.polars
from headwater.audit.report import Severity
from headwater.audit.tables import audit
from headwater.errors import HeadwaterError, InvalidOptionError, LakeNotAllowedError
from headwater.lake.iceberg.catalog import load_table, open_catalog
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.options import ALLOWED_LOCATIONS, AllowedPlaces, names_code
from headwater.lake.paimon.catalog import PaimonTable
from headwater.lake.paimon.commit import Commit, commit_snapshot
from headwater.lake.paimon.manifests import DataFile
from headwater.model.boundary import LakeBucket
from headwater.tiering.progress import TurnEnded, TurnFailed
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.lake import canary

CANARY = "tests.lake.canary.Canary"
SCHEMA = {"id": "BIGINT", "text": "STRING"}
HOSTILE = {
    "iceberg": (
        "py-io-impl",
        "py-catalog-impl",
        "write.py-location-provider.impl",
        "write.location-provider.impl",
        "write.data.path",
        "write.metadata.path",
        "write.object-storage.path",
        "write.folder-storage.path",
        "s3.endpoint",
        "s3.retry-strategy-impl",
        "adls.connection-string",
        "headwater.column-ids",
        "no.such.property",
    ),
    "paimon": (
        "path",
        "warehouse",
        "data-file.external-paths",
        "data-file.path-directory",
        "global-index.external-path",
        "commit.callbacks",
        "fs.s3.endpoint",
        "parquet.crypto.factory.class",
        "local-cache.dir",
        "metastore",
        "no.such.option",
    ),
}


@pytest.fixture(params=["iceberg", "paimon"])
def lake_format(request):
    canary.CALLS.clear()
    return request.param


@pytest.fixture
def options(lake_format):
    return {"table.datalake.enabled": True, "table.datalake.format": lake_format}


@pytest.fixture
def storage(tmp_path):
    with headwater.open(tmp_path / "data") as opened:
        yield opened


def tiered(storage, lakes=None):
    """Tier all tables, and return what was heard of each in the end."""
    heard = {}

    def hear(news):
        if isinstance(news, TurnEnded | TurnFailed):
            heard[news.path.table] = news

    async def once(client):
        service = TieringService(
            client, LocalRunner(client), lakes=lakes or client.cluster.lakes, listener=hear
        )
        await service.run_once()

    storage.run(once)
    return heard


def filled(storage, name, options):
    table = storage.create_table(name, SCHEMA, buckets=1, options=options)
    table.append([{"id": at, "text": "x"} for at in range(5)])
    return table


def lake_directory(storage, lake_format, name="t"):
    where = storage.table(name).info.descriptor.properties[
        f"table.datalake.{lake_format}.warehouse"
    ]
    below = f"fluss/{name}" if lake_format == "iceberg" else f"fluss.db/{name}"
    return Path(where.removeprefix("file://")) / below


def carry(storage, lake_format, **properties):
    """Have a lake table carry properties, as somebody who can write to the lake makes it."""
    place, key = lake_directory(storage, lake_format), "options"
    files = place.glob("schema/schema-*")
    if lake_format == "iceberg":
        files, key = place.glob("metadata/*.metadata.json"), "properties"
    for file in files:
        node = json.loads(file.read_text())
        node[key] |= properties
        file.write_text(json.dumps(node))


def test_options_that_no_format_takes_are_refused_when_a_table_is_made_or_altered(
    storage, lake_format, options
):
    table = storage.create_table("good", SCHEMA, options=options)
    for name in HOSTILE[lake_format]:
        hostile = f"{lake_format}.{name}"
        with pytest.raises(InvalidOptionError, match=f"'{hostile}'.*Allowed are {lake_format}"):
            storage.create_table("bad", SCHEMA, options={**options, hostile: CANARY})
        with pytest.raises(InvalidOptionError, match=f"'{hostile}'"):
            table.set_options({hostile: CANARY})
    table.set_options({"iceberg.write.parquet.page-size-bytes": "4096"})
    table.set_options({"paimon.target-file-size": "1 mb"})

    assert storage.list_tables() == ["good"]
    assert canary.CALLS == []


def test_a_table_that_has_had_such_options_is_not_tiered_and_no_library_sees_them(
    storage, lake_format, options
):
    table = filled(storage, "t", options)
    lake = Lakes().of(table.info).catalog()
    for name in HOSTILE[lake_format]:
        held = table.info.descriptor
        custom = {**held.custom_properties, f"{lake_format}.{name}": CANARY}
        older = replace(table.info, descriptor=replace(held, custom_properties=custom))

        with pytest.raises(HeadwaterError, match=name):
            lake.ensure(lake_spec(older))

    assert lake.list_tables() == []
    assert canary.CALLS == []


CARRIED = {
    "iceberg": [
        {"py-io-impl": CANARY},
        {"write.py-location-provider.impl": CANARY},
        {"write.data.path": "file:///tmp/elsewhere"},
        {"write.metadata.path": "file:///tmp/elsewhere"},
        {"write.object-storage.path": "s3://elsewhere/there"},
    ],
    "paimon": [
        {"data-file.external-paths": "file:///tmp/elsewhere"},
        {"global-index.external-path": "file:///tmp/elsewhere"},
        {"data-file.path-directory": "../../../elsewhere"},
    ],
}


def test_a_lake_table_that_carries_them_is_refused_by_tierers_and_readers(
    tmp_path, lake_format, options
):
    with headwater.open(tmp_path) as storage:
        filled(storage, "t", options)
        filled(storage, "other", options)
        tiered(storage)
        place = lake_directory(storage, lake_format)
    saved = {
        file: file.read_text() for file in (*place.glob("metadata/*.json"), *place.glob("schema/*"))
    }
    for carried in CARRIED[lake_format]:
        (name,) = carried
        for file, text in saved.items():
            file.write_text(text)
        with headwater.open(tmp_path) as storage:
            carry(storage, lake_format, **carried)
            refused_everywhere(storage, name)

    assert canary.CALLS == []


def refused_everywhere(storage, name):
    """See that nobody follows what a lake table carries, and that other tables are tiered."""
    for table in ("t", "other"):
        storage.table(table).append([{"id": 9, "text": "x"}])
    # A forged report leads readers to look at the lake table again.
    told = storage.lake.snapshot("t")
    forged = storage.lake.prepare("t", told.table_id, {LakeBucket(None, 0): 5})
    storage.lake.commit(told.table_id, told.snapshot_id, forged)
    with duckdb.connect() as connection:
        headwater.duckdb.install(connection, storage)
        for read in (
            lambda: storage.table("t").scan().to_arrow(),
            lambda: headwater.polars.scan(storage, "fluss.t").collect(),
            lambda: connection.sql("SELECT * FROM hw.fluss_read('fluss', 't')").fetchall(),
        ):
            with pytest.raises(Exception, match=name):
                read()

    heard = tiered(storage)

    assert isinstance(heard["t"].fault, LakeNotAllowedError), name
    assert name in str(heard["t"].fault)
    assert isinstance(heard["other"], TurnEnded)
    errors = [
        each for each in audit(storage, ["fluss.t"]).findings if each.severity is Severity.ERROR
    ]
    assert any(name in str(each) for each in errors)


def test_addresses_that_an_iceberg_table_carries_are_not_followed(storage):
    canary.CALLS.clear()
    table = filled(storage, "t", {"table.datalake.enabled": True})
    tiered(storage)

    carry(storage, "iceberg", **{"s3.endpoint": "http://elsewhere", "s3.region": "x"})

    spec = lake_spec(table.info)
    lake = Lakes().of(storage.table("t").info)
    io = load_table(open_catalog(lake.config), spec.path).io
    assert not any(name.startswith("s3.") for name in io.properties)
    assert lake.source(spec).snapshot().row_count == 5


def test_files_at_other_places_are_refused_until_their_place_is_allowed(
    storage, lake_format, options, tmp_path
):
    table = filled(storage, "t", options)
    tiered(storage)
    told = storage.table("t").info
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (data,) = lake_directory(storage, lake_format).rglob("*.parquet")
    moved = elsewhere / data.name
    moved.write_bytes(data.read_bytes())
    lead_to(storage, lake_format, moved)
    spec = lake_spec(table.info)

    for more, rows in (({}, None), ({ALLOWED_LOCATIONS: f"/nowhere, {elsewhere}"}, 5)):
        source = Lakes(config=more).of(told).source(spec)
        head = source.snapshot()
        if rows is None:
            with pytest.raises(LakeNotAllowedError, match=f"{elsewhere}.*{ALLOWED_LOCATIONS}"):
                source.plan(head.snapshot_id)
        else:
            splits = source.plan(head.snapshot_id)
            assert sum(split.row_count for split in splits) == rows


def lead_to(storage, lake_format, path):
    """Have the newest snapshot name a file at another place, as its own writers do it."""
    if lake_format == "iceberg":
        told = storage.table("t").info.descriptor.properties
        config = {
            key.removeprefix("table.datalake.iceberg."): value
            for key, value in told.items()
            if key.startswith("table.datalake.iceberg.")
        }
        table = load_catalog("fluss-iceberg-catalog", **config).load_table("fluss.t")
        rows = table.scan().to_arrow()
        with table.transaction() as changed:
            changed.set_properties({"write.data.path": f"file://{path.parent}"})
        table.overwrite(rows)
        with table.transaction() as changed:
            changed.remove_properties("write.data.path")
        return
    info = storage.table("t").info
    lake = PaimonTable.open(Lakes().of(info).config, lake_spec(info))
    (held,) = lake.live(lake.head())
    record = {**held.file.record, "_EXTERNAL_PATH": str(path), "_FILE_NAME": f"x-{path.name}"}
    entries = [held.leaving(), replace(held, file=DataFile(record))]
    change = Commit(entries=entries, user="somebody", kind="OVERWRITE", properties={})
    commit_snapshot(lake, change, on=lake.head(), now_ms=1)


def test_a_place_is_within_another_however_it_is_written():
    places = AllowedPlaces.of(
        {"warehouse": "file:///lake", ALLOWED_LOCATIONS: "s3://bucket/wh, /more"}
    )
    inside = ("/lake/a", "file:/lake/a", "file:///lake", "s3a://bucket/wh/x", "/more/b?c")
    outside = (
        "/lakes/a",
        "/lake/../etc/passwd",
        "file:///lake/%2e%2e/etc",
        "s3://bucket/other",
        "s3://wh/x",
        "/bucket/wh/x",
        "gs://bucket/wh/x",
        "/lake/a\0/../../../etc",
        "",
        "http://lake/a",
        "https://169.254.169.254/lake/a",
        "file://elsewhere/lake/a",
        "//elsewhere/lake/a",
        "\\\\elsewhere\\lake\\a",
        "/lake\\..\\etc",
        "/lake/%2e%2e%2fetc",
        "/lake/..%2Fetc",
        "FILE:///etc/passwd",
        "s3://bucket/wh/../other",
        "s3://bucket%2fwh/x",
    )

    assert all(map(places.allow, inside))
    assert not any(map(places.allow, outside))


def test_a_link_out_of_a_place_is_not_followed_and_a_place_may_be_a_link(tmp_path):
    lake, outside = tmp_path / "lake", tmp_path / "outside"
    lake.mkdir()
    outside.mkdir()
    (lake / "out").symlink_to(outside)
    (lake / "in").symlink_to(lake / "held")
    (tmp_path / "alias").symlink_to(lake)
    places = AllowedPlaces.of({"warehouse": f"file://{lake}"})
    linked = AllowedPlaces.of({"warehouse": str(tmp_path / "alias")})

    assert not places.allow(f"{lake}/out/secret.parquet")
    assert not places.allow(f"file://{lake}/out")
    assert places.allow(f"{lake}/in/file.parquet")
    assert linked.allow(f"{tmp_path}/alias/t/file.parquet")


def test_classes_that_a_server_names_for_java_reach_no_library_here(storage, options):
    table = filled(storage, "t", options)
    prefix = f"table.datalake.{options['table.datalake.format']}"
    java = {f"{prefix}.catalog-impl": "org.Catalog", f"{prefix}.io-impl": "org.FileIO"}
    held = table.info.descriptor
    told = replace(held, properties={**held.properties, **java})

    config = Lakes().config_of(replace(table.info, descriptor=told))

    assert not {"catalog-impl", "io-impl"} & config.keys()


def test_code_is_named_by_the_process_itself_and_by_no_server(storage, options):
    table = filled(storage, "t", options)
    lake_format = options["table.datalake.format"]
    held = table.info.descriptor
    told = {**held.properties, f"table.datalake.{lake_format}.py-catalog-impl": CANARY}
    hostile = replace(table.info, descriptor=replace(held, properties=told))

    with pytest.raises(LakeNotAllowedError, match="py-catalog-impl"):
        Lakes().config_of(hostile)

    own = Lakes(config={"py-catalog-impl": "mine"}).config_of(hostile)
    assert own["py-catalog-impl"] == "mine"
    assert not any(map(names_code, ("s3.storage-class", "uri", "write.parquet.page-size-bytes")))
