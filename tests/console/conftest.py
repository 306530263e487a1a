"""A storage with tables of every kind, hostile names and values among them, behind a console."""

import pytest

import headwater
from tests.console.browsing import Browser, opened_console

HOSTILE = "<script>alert('x')</script>"
HOSTILE_COLUMN = 'a"b<i>c'


@pytest.fixture(scope="module")
def hw(tmp_path_factory):
    with headwater.open(tmp_path_factory.mktemp("console") / "data", listen=True) as storage:
        storage.create_database("shop")
        clicks = storage.create_table("shop.clicks", {"id": "BIGINT", "page": "STRING"}, buckets=2)
        clicks.append([{"id": number, "page": f"/p{number}"} for number in range(50)])
        orders = storage.create_table(
            "shop.orders", {"id": "BIGINT", "city": "STRING"}, primary_key="id", buckets=1
        )
        orders.upsert([{"id": 1, "city": "Ulm"}, {"id": 2, "city": "Bonn"}])
        orders.upsert([{"id": 1, "city": "Kiel"}])
        days = {"day": "STRING", "n": "INT"}
        parts = storage.create_table("shop.days", days, partition_by="day", buckets=1)
        parts.append([{"day": f"2026-01-{day:02}", "n": day} for day in range(1, 29)])
        hostile = storage.create_table(
            "shop.hostile", {HOSTILE_COLUMN: "STRING"}, buckets=1, comment=HOSTILE
        )
        hostile.append([{HOSTILE_COLUMN: HOSTILE}])
        yield storage


@pytest.fixture(scope="module")
def console(hw):
    with opened_console((hw.address,)) as address:
        yield address


@pytest.fixture
def browser(console):
    return Browser(console)
