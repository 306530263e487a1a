"""The first page, lists of tables, and the page of one table."""

import json

import pytest

import headwater
from headwater.console.facts.growth import Growth
from headwater.console.facts.picture import log_strip
from headwater.console.facts.tables import PER_PAGE, matching, tables_list
from headwater.console.feed import MetricsFeed, RemoteMetrics, share_s, sums_of, values_of
from headwater.errors import InvalidOptionError
from tests.cases import cases
from tests.clocks import InstantClock
from tests.console.browsing import Browser, opened_console


def test_the_first_page_shows_tables_and_says_what_it_cannot(browser):
    answer = browser.get("/")

    assert answer.status == 200
    assert "shop.clicks" in answer.text
    assert "--metrics" in answer.text
    assert json.loads(browser.get("/live/series?names=growth").text)["growth"]["labels"] == ["rows"]
    assert browser.get("/live/series?names=nothing").status == 404


def test_names_and_comments_that_are_markup_are_shown_as_text(browser):
    for path in ("/tables", "/tables/shop/hostile", f"/tables?q={'%3Cscript%3E'}"):
        text = browser.get(path).text
        assert "<script>" not in text, path

    assert "&lt;script&gt;" in browser.get("/tables/shop/hostile").text


@cases(
    "query,found",
    [("click", 1), ("shop ord", 1), ("SHOP", 4), ("none", 0), ("%", 0), ("shop.days", 1)],
)
def test_tables_are_found_by_words(query, found, hw):
    growth = Growth()

    page = tables_list(hw, query=query, growth=growth, caller="", now_s=0.0)

    assert page.total == found


def test_a_table_shows_columns_buckets_and_offsets(browser):
    text = browser.get("/tables/shop/orders").text

    assert "primary key" in text
    assert "<code>BIGINT NOT NULL</code>" in text
    assert "High watermark" in text
    assert browser.get("/tables/shop/orders/count").text.strip() == "2"


def test_partitions_are_searched(browser):
    answer = browser.get("/tables/shop/days?partition=01-07", HX_Request="true")

    assert "2026-01-07" in answer.text
    assert "2026-01-08" not in answer.text


def test_a_thousand_tables_come_in_pages(tmp_path):
    with headwater.open(tmp_path / "data", listen=True) as hw:
        for number in range(1000):
            hw.create_table(f"fluss.t{number:04}", {"id": "BIGINT"}, buckets=1)
        with opened_console((hw.address,)) as address:
            first = Browser(address).get("/tables").text
            last = Browser(address).get("/tables?page=20").text
            overview = Browser(address).get("/")

    assert first.count('<tr><td><a href="/tables/fluss/') == PER_PAGE
    assert "page 1 of 20" in first
    assert "t0999" in last
    assert overview.status == 200


def test_own_tables_are_listed_only_when_asked_for():
    names = {"headwater": ["cursors"], "shop": ["orders"]}

    assert matching(names, query="", database="") == [("shop", "orders")]
    assert matching(names, query="", database="headwater") == [("headwater", "cursors")]


# Pictures and metrics.


def test_a_strip_shows_what_only_the_lake_has_what_both_have_and_what_only_the_log_has():
    strip = log_strip(20, 70, 100, scale=100)

    assert [(bar.kind, bar.x, bar.width) for bar in strip.bars] == [
        ("lake", 0.0, 20.0),
        ("both", 20.0, 50.0),
        ("log", 70.0, 30.0),
    ]


def test_a_strip_shows_a_gap_between_lake_and_log():
    assert [bar.kind for bar in log_strip(50, 20, 100, scale=100).bars] == ["lake", "gone", "log"]


METRICS = """# TYPE headwater_appended_rows counter
headwater_appended_rows_total {rows}
# TYPE headwater_tables gauge
headwater_tables 3
# TYPE headwater_disk_free_bytes gauge
headwater_disk_free_bytes -1
# TYPE headwater_request_seconds histogram
headwater_request_seconds_bucket{{api="PUT_KV",le="0.001"}} {fast}
headwater_request_seconds_bucket{{api="PUT_KV",le="0.002"}} {all}
headwater_request_seconds_bucket{{api="PUT_KV",le="+Inf"}} {all}
headwater_request_seconds_count{{api="PUT_KV"}} {all}
headwater_request_seconds_sum{{api="PUT_KV"}} 1
"""


def test_counters_become_rates_and_histograms_the_time_of_most_requests():
    before = sums_of(METRICS.format(rows=100, fast=0, all=0))
    now = sums_of(METRICS.format(rows=400, fast=98, all=100))

    values = values_of(before, now, passed_s=3.0)

    assert values["rows_in"] == 100.0
    assert values["tables"] == 3
    assert values["disk_free"] is None
    assert values["writes"] == pytest.approx(100 / 3)
    assert values["write_p99"] == pytest.approx(0.0015)
    assert values["lookup_p99"] is None


def test_a_server_that_was_restarted_tells_no_negative_rates():
    before = sums_of(METRICS.format(rows=400, fast=98, all=100))
    now = sums_of(METRICS.format(rows=1, fast=0, all=0))

    assert values_of(before, now, passed_s=3.0)["rows_in"] == 0.0
    assert share_s(before, now, "headwater_request_seconds_bucket", ("PUT_KV",)) is None


async def test_metrics_that_cannot_be_read_are_told():
    feed = MetricsFeed(RemoteMetrics("http://127.0.0.1:1"), InstantClock())

    await feed.sample()

    assert feed.fault
    assert feed.newest == {}


def test_an_address_of_metrics_is_one_of_http():
    with pytest.raises(InvalidOptionError, match="not an address"):
        RemoteMetrics("file:///etc/passwd")
