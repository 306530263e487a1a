"""Readers see each row once while rows are written and tiered, and only what they may see."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import headwater
from headwater.doors.iceberg.held import TailLimits
from headwater.server.logins import Users
from tests.doors.iceberg.opening import LAKE, opened_door, opened_shop, rest_catalog
from tests.doors.iceberg.test_app import basic
from tests.serving import serving

LOADS = 6
ROWS = 100
KEYS = 500


def test_readers_see_each_row_once_while_rows_are_written_and_tiered(tmp_path):
    with opened_shop(tmp_path) as shop, ThreadPoolExecutor(2) as threads:
        columns, stopped = {"id": "BIGINT", "n": "BIGINT"}, Event()
        log = shop.hw.create_table("log", columns, options=LAKE, bucket_by="id", buckets=2)
        keyed = shop.hw.create_table("k", columns, options=LAKE, primary_key="id", buckets=2)
        work = [threads.submit(write, log, keyed, stopped), threads.submit(tier, shop, stopped)]
        try:
            for _ in range(LOADS):
                ids = shop.loaded("log").scan().to_arrow()["id"].to_pylist()
                assert len(ids) == len(set(ids))
                found = shop.loaded("k").scan().to_arrow()["id"].to_pylist()
                assert len(found) == len(set(found))
        finally:
            stopped.set()
        rounds = [each.result() for each in work]

    assert all(count > 1 for count in rounds)


def write(log, keyed, stopped):
    """Append numbers, each once, and write and delete keys again and again."""
    rounds = 0
    while not stopped.is_set():
        start = rounds * ROWS
        some = [(at, rounds) for at in range(start, start + ROWS)]
        log.append(some)
        keyed.upsert([(at % KEYS, rounds) for at, _ in some])
        keyed.delete([((start + at) % KEYS,) for at in range(0, ROWS, 7)])
        rounds += 1
    return rounds


def tier(shop, stopped):
    rounds = 0
    while not stopped.is_set():
        shop.tier()
        rounds += 1
    return rounds


def test_what_one_caller_loaded_is_not_shared_with_those_who_may_not_read_it(tmp_path):
    Users({}).with_user("root", "r").with_user("ann", "a").save(tmp_path / "users")
    options = (f"--users={tmp_path / 'users'}", "--authorizer", "--super-users=User:root")
    with serving(tmp_path / "data", *options) as server:
        with headwater.connect(server.address, user="root", password="r") as hw:
            hw.create_table("t", {"id": "BIGINT"}, options=LAKE).append([(1,)])
            hw.acls.grant("User:ann", "DESCRIBE", "fluss.t")
        limits = TailLimits(fresh_within_s=60.0)
        with opened_door((server.address,), limits=limits) as door:
            url = "/v1/namespaces/fluss/tables/t"
            assert rest_catalog(door, credential="root:r").load_table("fluss.t").scan().count() == 1

            assert door.ask(url, headers=basic("root", "r")).status == 200
            assert door.ask(url, headers=basic("ann", "a")).status == 403
