"""A script that is killed again and again: at the end its tables are exact."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import headwater
from tests.figures import times
from tests.serving import serving

KILLS = times(10)
ROWS = 200
"""Rows that each source gets in each life of the script."""
CUSTOMERS = 50
WITHIN_S = 600
LATE_S = 5
SCRIPT = """
CREATE CATALOG hw WITH ('type' = 'fluss', 'bootstrap.servers' = '{servers}');
USE CATALOG hw;
CREATE TABLE IF NOT EXISTS orders (id BIGINT, customer INT, ptime AS PROCTIME());
CREATE TABLE IF NOT EXISTS payments (
  id BIGINT, amount BIGINT, `at` TIMESTAMP_LTZ(3),
  WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND
);
CREATE TABLE IF NOT EXISTS named (
  id BIGINT, customer INT, name STRING, PRIMARY KEY (id) NOT ENFORCED
) WITH ('bucket.num' = '2');
CREATE TABLE IF NOT EXISTS minutes (
  window_start TIMESTAMP(3), n BIGINT, amount BIGINT, PRIMARY KEY (window_start) NOT ENFORCED
);
INSERT INTO named
SELECT o.id, o.customer, c.name FROM orders AS o
JOIN customers FOR SYSTEM_TIME AS OF o.ptime AS c ON o.customer = c.id;
INSERT INTO minutes
SELECT window_start, COUNT(*) AS n, SUM(amount) AS amount
FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(`at`), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
"""

pytestmark = [pytest.mark.spark, pytest.mark.torture, pytest.mark.timeout(7200)]


def order(number: int) -> tuple[int, int]:
    return number, number % CUSTOMERS + 1


def payment(number: int) -> tuple[int, int, datetime]:
    return number, number % 7, datetime.fromtimestamp(number, UTC)


class Script:
    """A `headwater run` with everything that it starts."""

    def __init__(self, script: Path, log: Path, *options: str) -> None:
        command = [sys.executable, "-m", "headwater", "run", str(script), "--master", "local[2]"]
        command.extend(options)
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


def wait_until(script: Script, is_so: Callable[[], bool]) -> None:
    """Wait for something that a running script does."""
    until = time.monotonic() + WITHIN_S
    while script.is_running and not is_so():
        assert time.monotonic() < until, "the script does not get on"
        time.sleep(0.02)


def feed(client, life: int) -> None:
    numbers = range(life * ROWS, (life + 1) * ROWS)
    client.table("fluss.orders").append(list(map(order, numbers)))
    client.table("fluss.payments").append(list(map(payment, numbers)))


def live(client, script: Script, life: int, chance: random.Random) -> None:
    """Let a script run until it has written something that is new, and kill it."""
    before = changes(client, "named")
    wait_until(script, lambda: has(client, "minutes"))
    feed(client, life)
    more = chance.randint(1, ROWS) if life % 2 else 1
    wait_until(script, lambda: changes(client, "named") >= before + more)
    assert script.is_running
    script.kill()


def test_a_script_that_is_killed_ten_times_is_exact_at_the_end(tmp_path):
    chance = random.Random(25)
    log, text = tmp_path / "log", tmp_path / "script.sql"
    with serving(tmp_path / "data") as server, headwater.connect(server.address) as client:
        schema = {"id": "INT", "name": "STRING"}
        customers = client.create_table("fluss.customers", schema, primary_key="id")
        customers.upsert([(number, f"c{number}") for number in range(1, CUSTOMERS + 1)])
        text.write_text(SCRIPT.format(servers=server.address))

        for life in range(KILLS):
            live(client, Script(text, log), life, chance)
        code = Script(text, log, "--once").finish()

        assert code == 0, log.read_text()[-3000:]
        check(client, KILLS * ROWS)


def check(client, rows: int) -> None:
    named = {row["id"]: row["name"] for row in client.table("fluss.named").scan().to_pylist()}
    assert named == {number: f"c{order(number)[1]}" for number in range(rows)}
    # Each row was written once, not only by key.
    assert changes(client, "named") == rows
    minutes = {
        int(row["window_start"].replace(tzinfo=UTC).timestamp()) // 60: (row["n"], row["amount"])
        for row in client.table("fluss.minutes").scan().to_pylist()
    }
    whole = defaultdict(lambda: (0, 0))
    for number, amount, _ in map(payment, range(rows)):
        n, total = whole[number // 60]
        whole[number // 60] = (n + 1, total + amount)
    closed = (rows - 1 - LATE_S) // 60
    assert {at: minutes[at] for at in range(closed)} == {at: whole[at] for at in range(closed)}
    assert all(minutes[at] == whole[at] for at in minutes)
