"""A script that is killed again and again: at the end its tables are exact."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

import headwater
from headwater.pipelines.connectors.datagen import GeneratorPlan, rows_between
from tests.figures import times
from tests.serving import serving

KILLS = times(10)
ROWS = 16_000
CUSTOMERS = 50
WITHIN_S = 600
LATE_S = 5
PAYMENTS = {
    "number-of-rows": str(ROWS),
    "rows-per-second": "200",
    "fields.id.kind": "sequence",
    "fields.id.start": "0",
    "fields.id.end": str(ROWS - 1),
    "fields.amount.min": "1",
    "fields.amount.max": "100",
}
ORDERS = {
    **{name: text for name, text in PAYMENTS.items() if "amount" not in name},
    "fields.customer.min": "1",
    "fields.customer.max": str(CUSTOMERS),
}
SCRIPT = """
CREATE CATALOG hw WITH ('type' = 'fluss', 'bootstrap.servers' = '{servers}');
USE CATALOG hw;
CREATE TABLE IF NOT EXISTS named (
  id BIGINT, customer INT, name STRING, PRIMARY KEY (id) NOT ENFORCED
) WITH ('bucket.num' = '2');
CREATE TABLE IF NOT EXISTS minutes (
  window_start TIMESTAMP(3), n BIGINT, amount BIGINT, PRIMARY KEY (window_start) NOT ENFORCED
);
CREATE TEMPORARY TABLE orders (id BIGINT, customer INT, ptime AS PROCTIME())
WITH ('connector' = 'datagen', {orders});
CREATE TEMPORARY TABLE payments (
  id BIGINT, amount BIGINT, at AS TO_TIMESTAMP_LTZ(id * 1000, 3),
  WATERMARK FOR at AS at - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen', {payments});
INSERT INTO named
SELECT o.id, o.customer, c.name FROM orders AS o
JOIN customers FOR SYSTEM_TIME AS OF o.ptime AS c ON o.customer = c.id;
INSERT INTO minutes
SELECT window_start, COUNT(*) AS n, SUM(amount) AS amount
FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
"""

pytestmark = [pytest.mark.spark, pytest.mark.torture, pytest.mark.timeout(7200)]


def clause(options) -> str:
    return ", ".join(f"'{name}' = '{text}'" for name, text in options.items())


def made(options, **columns) -> list[dict]:
    schema = pa.schema(columns)
    plan = GeneratorPlan.of(options, schema.names)
    batches = rows_between(plan, schema, start=0, end=ROWS, begin_ms=0)
    return pa.Table.from_batches(batches, schema).to_pylist()


class Script:
    """A `headwater run` with everything that it starts."""

    def __init__(self, script: Path, log: Path) -> None:
        command = [sys.executable, "-m", "headwater", "run", str(script), "--master", "local[2]"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=script.parent, start_new_session=True
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self) -> int:
        return self._process.wait(WITHIN_S * 3)


def changes(client, name) -> int:
    return sum(client.table(f"fluss.{name}").offsets().values()) if has(client, name) else 0


def has(client, name) -> bool:
    return client.table_exists(f"fluss.{name}")


def wait_for_progress(client, script: Script, more: int) -> None:
    """Wait until a running script has written so many changes more, or has ended."""
    begun, until = changes(client, "named"), time.monotonic() + WITHIN_S
    while script.is_running and changes(client, "named") < begun + more:
        assert time.monotonic() < until, "the script does not get on"
        time.sleep(0.05)


def expected_minutes() -> dict[int, tuple[int, int]]:
    found = defaultdict(lambda: (0, 0))
    for row in made(PAYMENTS, id=pa.int64(), amount=pa.int64()):
        n, amount = found[row["id"] // 60]
        found[row["id"] // 60] = (n + 1, amount + row["amount"])
    return dict(found)


def test_a_script_that_is_killed_ten_times_is_exact_at_the_end(tmp_path):
    chance = random.Random(25)
    with serving(tmp_path / "data") as server, headwater.connect(server.address) as client:
        schema = {"id": "INT", "name": "STRING"}
        customers = client.create_table("fluss.customers", schema, primary_key="id")
        customers.upsert([(number, f"c{number}") for number in range(1, CUSTOMERS + 1)])
        script = tmp_path / "script.sql"
        clauses = {"orders": clause(ORDERS), "payments": clause(PAYMENTS)}
        script.write_text(SCRIPT.format(servers=server.address, **clauses))

        for _ in range(KILLS):
            process = Script(script, tmp_path / "log")
            wait_for_progress(client, process, chance.randint(1, 400))
            assert process.is_running, (tmp_path / "log").read_text()[-3000:]
            process.kill()
        code = Script(script, tmp_path / "log").finish()

        assert code == 0, (tmp_path / "log").read_text()[-3000:]
        check(client)


def check(client) -> None:
    orders = made(ORDERS, id=pa.int64(), customer=pa.int32())
    named = {row["id"]: row["name"] for row in client.table("fluss.named").scan().to_pylist()}
    assert named == {row["id"]: f"c{row['customer']}" for row in orders}
    # Each row was written once, not only by key.
    assert changes(client, "named") == ROWS
    minutes = {
        int(row["window_start"].timestamp()) // 60: (row["n"], row["amount"])
        for row in client.table("fluss.minutes").scan().to_pylist()
    }
    closed = (ROWS - 1 - LATE_S) // 60
    whole = expected_minutes()
    assert {at: minutes[at] for at in range(closed)} == {at: whole[at] for at in range(closed)}
    assert all(minutes[at] == whole[at] for at in minutes)
