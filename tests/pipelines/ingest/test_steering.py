"""Pipelines that are listed, held, told to take a table again, and stopped, by commands."""

import json
import subprocess
import sys
import time

import psycopg2

from tests.pipelines.ingest.test_story import WITHIN_S, Run, followed, source_rows, story

__all__ = ["story"]


def steer(client, *words, expect=0):
    """Run `headwater pipeline`, and return what it prints."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "headwater", "pipeline", *words),
            *("--at", client.address, "--output", "json"),
        ],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def wait_until(is_true, run) -> None:
    until = time.monotonic() + WITHIN_S
    while not is_true():
        assert run.process.poll() is None, "the pipeline ended"
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.05)


def state(client):
    ((document,), _) = steer(client, "status", "story")
    return document["state"]


def write(address, statement) -> None:
    with psycopg2.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_pipeline_is_held_goes_on_and_is_stopped_by_commands(story, tmp_path):
    address, client, form = story
    run = Run(form, tmp_path / "log")
    wait_until(lambda: client.table_exists("headwater.pipelines"), run)
    wait_until(lambda: state(client) == "following", run)

    steer(client, "pause", "story")
    wait_until(lambda: state(client) == "paused", run)
    write(address, "UPDATE orders SET n = -1 WHERE id = 1")
    held = followed(client, "orders")[1]["n"]
    steer(client, "resume", "story")
    wait_until(lambda: followed(client, "orders") == source_rows(address, "orders"), run)
    steer(client, "stop", "story")

    assert held == 1
    assert run.process.wait(WITHIN_S) == 0
    assert state(client) == "stopped"


def test_a_table_is_taken_again_while_changes_are_followed(story, tmp_path):
    address, client, form = story
    run = Run(form, tmp_path / "log")
    wait_until(lambda: client.table_exists("headwater.pipelines"), run)
    wait_until(lambda: state(client) == "following", run)
    client.table("public.orders").delete([{"id": 7}])
    client.table("public.orders").upsert([{"id": 9_999, "n": 1}])

    steer(client, "resnapshot", "story", "public.orders")
    write(address, "INSERT INTO orders VALUES (5000, 1, 2, NULL)")
    wait_until(lambda: followed(client, "orders") == source_rows(address, "orders"), run)
    steer(client, "stop", "story")

    assert run.process.wait(WITHIN_S) == 0


def test_all_pipelines_are_listed_and_an_unknown_one_is_told(story, tmp_path):
    _, client, form = story
    before, _ = steer(client, "list")
    assert Run(form, tmp_path / "log", "--once").process.wait(WITHIN_S) == 0

    listed, _ = steer(client, "list")
    _, unknown = steer(client, "status", "stroy", expect=4)
    _, table = steer(client, "resnapshot", "story", "public.none", expect=4)

    assert before == []
    assert [(each["pipeline"], each["state"]) for each in listed] == [("story", "stopped")]
    assert "There is no pipeline 'stroy'." in unknown
    assert "Known pipelines: story." in unknown
    assert "has no table public.none" in table
