"""The text of a pipeline: what is taken, and what is told of every fault."""

import pytest

from headwater.errors import StatementError
from headwater.pipelines.ingest.form import SchemaBehavior, SchemaChange, SourceTable
from headwater.pipelines.ingest.form_text import parse_form
from tests.cases import cases

FORM = r"""
source:
  type: postgres
  host: db.example
  username: reader
  password: env:INGEST_SECRET
  database: shop
  tables: public.orders, eu\.*.\.*_log
  tables.exclude: [eu1.big_log]
sink:
  type: fluss
  bootstrap.servers: a:9123,b:9123
  bucket.num: shop.orders:4;3
  bucket.key: shop.orders:id
  properties.table.log.ttl: 3 d
  exclude.schema.changes: drop.column
transform:
  - source-table: public.orders
    projection: id, name
route:
  - source-table: eu\d.\.*
    sink-table: logs.all_<>
    replace-symbol: <>
pipeline:
  name: shop
  schema.change.behavior: evolve
"""


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("INGEST_SECRET", "hush")


def test_a_whole_form_is_parsed():
    form = parse_form(FORM)

    assert form.source.password == "hush"
    assert form.source.slot == form.source.publication == "headwater_shop"
    assert form.sink.servers == ("a:9123", "b:9123")
    assert form.sink.bucket_keys == {"shop.orders": ("id",)}
    assert form.handling.behavior is SchemaBehavior.EVOLVE
    assert SchemaChange.DROP_COLUMN not in form.sink.taken
    assert form.transforms[0].columns == ("id", "name")


def test_secrets_are_not_shown():
    assert "hush" not in repr(parse_form(FORM))


def test_patterns_choose_tables_and_exclusions_win():
    source = parse_form(FORM).source

    assert source.wants(SourceTable("public", "orders"))
    assert source.wants(SourceTable("eu2", "click_log"))
    assert not source.wants(SourceTable("eu1", "big_log"))
    assert not source.wants(SourceTable("public", "orders2"))


def test_routes_name_the_table_and_others_keep_their_names():
    form = parse_form(FORM)

    assert form.target(SourceTable("eu1", "click_log")) == "logs.all_click_log"
    assert form.target(SourceTable("public", "orders")) == "public.orders"
    assert form.buckets("shop.orders") == 4
    assert form.buckets("other.table") == 3


@cases(
    "old,new,told",
    [
        ("host: db.example", "hots: db.example", "Did you mean 'host'?"),
        ("type: postgres", "type: mysql", "The type 'mysql' is not supported yet."),
        ("type: postgres", "type: kafka", "The type 'kafka' is not supported yet."),
        ("type: postgres", "type: postgre", "Did you mean 'postgres'?"),
        ("behavior: evolve", "behavior: evolv", "Did you mean 'evolve'?"),
        ("table.log.ttl: 3 d", "table.log.ttll: 3 d", "Did you mean 'table.log.ttl'?"),
        ("public.orders, eu", "orders, eu", "does not name a schema and a table"),
        ("projection: id, name", "filter: id > 3", "'filter' is not supported"),
        ("projection: id, name", "projection: upper(x)", "computed columns are not supported"),
        ("sink-table: logs.all_<>", "sink-table: all_<>", "is not the name of a table"),
        ("bucket.num: shop.orders:4;3", "bucket.num: many", "a number from 1 to 4096"),
        ("env:INGEST_SECRET", "env:NO_SUCH", "There is no environment variable 'NO_SUCH'"),
        ("  database: shop\n", "", "'source' needs 'database'"),
        ("  name: shop\n", "  name: shop\n  name: b\n", "'name' is given twice"),
    ],
)
def test_a_fault_is_told_with_its_place(old, new, told):
    assert old in FORM

    with pytest.raises(StatementError, match="Line ") as fault:
        parse_form(FORM.replace(old, new, 1))

    assert told in str(fault.value)


def test_all_faults_are_told_at_once_in_order():
    text = FORM.replace("host:", "hots:").replace("name: shop", "nam: shop")

    with pytest.raises(StatementError) as fault:
        parse_form(text)

    assert fault.value.line == 3
    assert str(fault.value).index("'hots'") < str(fault.value).index("'nam'")


@cases("text", ["", "- a", "source: [", "source: 3\nsink: 4\npipeline: 5"])
def test_what_is_no_form_is_refused(text):
    with pytest.raises(StatementError, match="Line "):
        parse_form(text)
