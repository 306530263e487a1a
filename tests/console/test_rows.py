"""Browsing rows: parts of a log, live, at a position, by key, a sample, a plan."""

import re
from html import unescape
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow as pa
import pytest

from headwater.console.facts.profile import column_profile
from headwater.console.facts.rows import RowsQuery, log_page, positions_of, positions_text, typed
from headwater.errors import InvalidValueError, RequestError
from headwater.model import TablePath
from headwater.read.offsets import Place
from headwater.runtime.clock import SystemClock
from tests.cases import cases
from tests.console.conftest import HOSTILE, HOSTILE_COLUMN

CLICKS = TablePath("shop", "clicks")


def read(hw, **query):
    return log_page(hw, CLICKS, RowsQuery(**query), SystemClock())


def test_pages_of_a_log_give_each_row_once_in_the_order_of_its_bucket(hw):
    seen, start, is_end = [], "earliest", False
    while not is_end:
        page = read(hw, start=start, limit=7)
        seen += [(row.bucket, row.offset, row.values[0]) for row in page.rows]
        start, is_end = page.following, page.is_end

    assert sorted(each[2] for each in seen) == list(range(50))
    assert len(set(seen)) == 50


def test_a_log_is_read_from_an_offset_a_time_or_its_last_rows(hw):
    assert {row.offset for row in read(hw, start="10", limit=2).rows} == {10, 11}
    assert len(read(hw, start="2000-01-01", limit=1000).rows) == 50
    assert read(hw, start="latest").rows == ()
    last = {row.bucket: row.offset for row in read(hw, start="last", limit=2).rows}
    ends = {str(place.bucket): end for place, end in hw.table(CLICKS).offsets("latest").items()}
    assert last == {bucket: end - 1 for bucket, end in ends.items() if end}


def test_a_filter_compares_values_of_the_column_s_type(hw):
    rows = read(hw, start="earliest", column="id", operator=">", value="47").rows

    assert sorted(row.values for row in rows) == [(48, "/p48"), (49, "/p49")]


@cases(
    "query,fault",
    [
        ({"start": "nonsense"}, RequestError),
        ({"start": "[1]"}, RequestError),
        ({"start": "2100-01-01"}, RequestError),
        ({"start": "earliest", "partition": "x"}, RequestError),
        ({"start": "earliest", "column": "none", "value": "1"}, RequestError),
        ({"start": "earliest", "column": "id", "value": "many"}, InvalidValueError),
        ({"start": "earliest", "column": "id", "operator": "or", "value": "1"}, RequestError),
    ],
)
def test_what_cannot_be_read_is_refused(query, fault, hw):
    with pytest.raises(fault):
        read(hw, **query)


def test_positions_survive_as_text():
    positions = {Place(None, 0): 3, Place("2026-01-01$a,b", 1): 2**60}

    assert positions_of(positions_text(positions)) == positions


def test_values_are_typed_as_their_columns():
    assert typed("7", pa.int32()) == 7
    assert typed("0x00ff", pa.binary()) == b"\x00\xff"
    assert typed("true", pa.bool_()) is True
    with pytest.raises(InvalidValueError):
        typed("seven", pa.int32())


def test_the_page_of_rows_shows_offsets_and_leads_on(browser):
    text = browser.get("/tables/shop/clicks/rows?from=earliest&limit=10").text

    assert text.count("<tr><td>") == 10
    following = re.search(r'href="([^"]+)" rel="next"', text)[1]
    more = browser.get(unescape(following)).text
    assert more.count("<tr><td>") == 10


def test_a_live_page_gets_what_was_written_since(hw, browser):
    page = browser.get("/tables/shop/orders/rows?live=1&from=latest").text
    poll = unescape(re.search(r'<tbody hx-get="([^"]+)"', page)[1])
    assert "/p0" not in page

    hw.table("shop.orders").upsert([{"id": 7, "city": "Jena"}])
    part = browser.get(poll, HX_Request="true").text
    again = unescape(re.search(r'hx-get="([^"]+)"', part)[1])

    assert "Jena" in part
    assert "insert" in part
    assert "Jena" not in browser.get(again, HX_Request="true").text
    assert parse_qs(urlsplit(again).query)["from"] != parse_qs(urlsplit(poll).query)["from"]


def test_hostile_values_are_shown_as_text_everywhere(browser):
    where = f"?column={quote(HOSTILE_COLUMN)}&value={quote(HOSTILE)}"
    for page in ("rows", "rows?what=union", "sample", "plan", f"rows{where}", f"plan{where}"):
        answer = browser.get(f"/tables/shop/hostile/{page}")
        assert answer.status == 200, page
        assert HOSTILE not in answer.text, page
        assert HOSTILE_COLUMN not in answer.text, page

    assert unescape(browser.get("/tables/shop/hostile/rows").text).count(HOSTILE) == 1


def test_rows_at_a_token_stay_as_they_were(hw, browser):
    text = browser.get("/tables/shop/clicks/rows?what=union&limit=60").text
    token = re.search(r"token (\S+)</p>", text)[1]
    hw.table("shop.clicks").append([{"id": 1000, "page": "/late"}])

    old = browser.get(f"/tables/shop/clicks/rows?what=union&limit=100&token={quote(token)}").text
    new = browser.get("/tables/shop/clicks/rows?what=union&limit=100").text

    assert "/late" not in old
    assert "/late" in new


def test_a_key_has_its_row_and_its_history(browser):
    text = browser.get("/tables/shop/orders/key?key_id=1").text

    row, history = text.split('id="history"')
    assert "Kiel" in row
    assert "Ulm" not in row
    assert "Ulm" in history
    assert "There is no row" in browser.get("/tables/shop/orders/key?key_id=99").text
    assert browser.get("/tables/shop/orders/key?key_id=x").status == 400
    assert "no primary key" in browser.get("/tables/shop/clicks/key").text


def test_a_plan_says_what_is_read(browser):
    text = browser.get("/tables/shop/clicks/plan").text

    assert "In words" in text
    assert "log only" in text


# Profiles.


def test_a_profile_tells_nulls_distinct_values_extremes_and_spread():
    column = pa.chunked_array([pa.array([1, 2, 2, None, 5])])

    profile = column_profile("n", column)

    assert (profile.nulls, profile.distinct, profile.least, profile.most) == (1, 3, 1, 5)
    assert profile.mean == 2.5
    assert profile.top[0] == (2, 2)
    assert len(profile.spread) == 24


@cases(
    "column",
    [
        pa.array([], pa.int64()),
        pa.array([None, None], pa.float64()),
        pa.array([float("nan"), 1.0]),
        pa.array([True, False, None]),
        pa.array([[1], None]),
        pa.array([{"a": 1}]),
        pa.array([b"\x00", None]),
        pa.array([None], pa.decimal128(10, 2)),
        pa.array([1, 2], pa.timestamp("us", tz="UTC")),
        pa.array([1, 2], pa.date32()),
        pa.array([1, 2], pa.time64("us")),
    ],
)
def test_every_type_of_column_can_be_profiled(column):
    assert column_profile("c", pa.chunked_array([column])).nulls == column.null_count
