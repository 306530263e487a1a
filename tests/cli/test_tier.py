"""Tiering from the command line, on a Spark of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from scripts.spark_servers import script

import headwater
from headwater.cli.lake_run import Teller
from headwater.cli.output import Output
from headwater.cluster.schema_in import schema_of
from headwater.engines.spark.tiering import job
from headwater.lake.lakes import Lakes, lake_spec
from headwater.model.schema import with_column_ids
from headwater.tiering.progress import Waits
from tests.cli.commanding import Storage
from tests.serving import serving

WITHIN_S = 300  # sessions take their time where others use the machine as well
MASTER = ("--master", "local[2]")
SCHEMA = {"id": "BIGINT", "text": "STRING"}
OTHERS = {"id": "STRING", "when": "TIMESTAMP"}


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"id": number, "text": f"t{number}"} for number in numbers]


def create(hw, name: str, lake: str, **more):
    options = {"table.datalake.enabled": True, "table.datalake.format": lake, **more}
    table = hw.create_table(name, SCHEMA, buckets=2, options=options)
    table.append(rows(*range(100)))
    return table


def lake_ids(table) -> list[int]:
    """Return the ids that the lake table of a table holds."""
    source = Lakes().of(table.info).source(lake_spec(table.info))
    splits = source.plan(source.snapshot().snapshot_id)
    found = [batch["id"].to_pylist() for split in splits for batch in source.read(split)]
    return sorted(number for each in found for number in each)


def in_the_way(table) -> None:
    """Let the lake hold a table of the same name with other columns."""
    spec = lake_spec(table.info)
    others = with_column_ids(schema_of(OTHERS))
    Lakes().of(table.info).catalog().ensure(replace(spec, schema=others, bucket_keys=()))


@pytest.fixture
def at(tmp_path):
    """Return a storage with a table for each format, and some that cannot be tiered."""
    with headwater.open(tmp_path / "data") as hw:
        for lake in ("iceberg", "paimon"):
            create(hw, lake, lake)
        in_the_way(create(hw, "other", "paimon"))
        hw.create_table("plain", SCHEMA)
    return Storage(str(tmp_path / "data"))


@pytest.mark.spark
@pytest.mark.timeout(WITHIN_S)
def test_tables_are_tiered_once_and_bad_ones_stop_no_other(at):
    command = ("tier", "iceberg", "paimon", "plain,other,missing", "--once", "-o", "json")

    process = at.process(*command, *MASTER)

    stdout, stderr = process.communicate(timeout=WITHIN_S)
    told = {line["table"]: line for line in map(json.loads, stdout.splitlines())}
    assert told["fluss.iceberg"]["rows"] == told["fluss.paimon"]["rows"] == 100
    assert "table.datalake.enabled" in told["fluss.plain"]["error"]
    assert "drop" in told["fluss.other"]["error"]
    assert "The tables are" in told["fluss.missing"]["error"]
    assert process.returncode in (3, 4, 5), stderr
    with headwater.open(at.at) as hw:
        assert lake_ids(hw.table("iceberg")) == lake_ids(hw.table("paimon")) == [*range(100)]


@pytest.mark.spark
@pytest.mark.timeout(WITHIN_S)
def test_a_tierer_goes_on_until_it_is_asked_to_end(tmp_path):
    with serving(tmp_path / "data") as server, headwater.connect(server.address) as hw:
        table = create(hw, "clicks", "iceberg", **{"table.datalake.freshness": "1s"})
        process = Storage(server.address).process("tier", "--poll", "0.2", *MASTER)
        lines = iter(process.stderr.readline, "")

        first = next(line for line in lines if "clicks" in line)
        table.append(rows(*range(100, 150)))
        second = next(line for line in lines if "clicks: 50 rows" in line)
        process.send_signal(signal.SIGTERM)

        assert "100 rows" in first
        assert "0 rows left" in second
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0
        assert lake_ids(table) == [*range(150)]


@pytest.mark.spark
@pytest.mark.timeout(WITHIN_S)
@pytest.mark.torture
def test_a_tierer_can_be_submitted_to_spark(tmp_path):
    with serving(tmp_path / "data") as server, headwater.connect(server.address) as hw:
        table = create(hw, "clicks", "paimon")
        command = [script("spark-submit"), *MASTER, job.__file__, server.address, "--once"]

        done = subprocess.run(
            command,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

        assert done.returncode == 0, done.stderr[-2000:]
        assert json.loads(done.stdout.splitlines()[-1])["rows"] == 100
        assert lake_ids(table) == [*range(100)]


def test_a_small_table_needs_no_spark(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        create(hw, "clicks", "paimon")

    (told,) = Storage(str(tmp_path / "data")).rows("tier", "--once", "--here")

    assert (told["table"], told["rows"]) == ("fluss.clicks", 100)
    with headwater.open(tmp_path / "data") as hw:
        assert lake_ids(hw.table("clicks")) == [*range(100)]


def test_a_server_that_cannot_be_reached_is_told_before_spark_is_started():
    result = Storage("127.0.0.1:1")("tier", "--once", "--timeout", "0.5")

    assert result.exit_code == 7
    assert "127.0.0.1:1" in result.stderr
    assert "incubator" not in result.stderr


def test_without_spark_it_is_said_what_to_install(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.delitem(sys.modules, "headwater.cli.tier_spark", raising=False)

    headwater.open(tmp_path).close()

    result = Storage(str(tmp_path))("tier", "--once")

    assert result.exit_code == 4
    assert "pip install 'headwater[spark]'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--lake", "warehouse"], "'warehouse' is not a valid lake option"),
        (["--spark", "x=1", "--spark", "x=2"], "'x' is given twice"),
        (["--remote", "host:15002"], "sc://"),
    ],
)
def test_arguments_that_make_no_sense_are_named(tmp_path, arguments, told):
    headwater.open(tmp_path).close()

    result = Storage(str(tmp_path))("tier", "--once", *arguments)

    assert result.exit_code == 3
    assert told in result.stderr


def test_a_wait_is_told_once_however_often_the_server_is_asked(capsys):
    teller = Teller(Output.TABLE, None)

    for second in range(3):
        teller.hear(Waits(reason="all tables are fresh", until_ms=second * 1000))
    told = capsys.readouterr().err

    assert re.fullmatch(
        r"headwater: waiting: all tables are fresh; asking again at \d\d:\d\d:\d\d\n", told
    )
