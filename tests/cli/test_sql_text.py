"""SQL as people type it."""

import duckdb

from headwater.cli.sql import RESERVED, completions, is_blank, is_complete, quoted_name
from tests.cases import cases


@cases(
    "text",
    [
        "select 1;",
        "select 1; -- done",
        "select ';' ;",
        "select 'it''s';\n",
        'select ";" from t;',
        "select $$ ; $$;",
        "select 1 /* ; */;",
    ],
)
def test_a_statement_ends_with_a_semicolon(text):
    assert is_complete(text)


@cases(
    "text",
    ["", "select 1", "select ';", 'select "a;', "select 1 /* ;", "select $q$ ;", "-- ;"],
)
def test_a_semicolon_inside_of_something_ends_nothing(text):
    assert not is_complete(text)


def test_comments_and_space_are_nothing_to_run():
    assert is_blank(" ; -- only a comment\n /* and another */ ;")
    assert not is_blank("select 1")


def test_a_name_is_quoted_where_it_has_to_be():
    assert quoted_name("orders") == "orders"
    assert quoted_name("Orders") == '"Orders"'
    assert quoted_name("order") == '"order"'
    assert quoted_name('a"b') == '"a""b"'
    assert quoted_name("2026") == '"2026"'


def test_tables_and_columns_come_before_keywords():
    names = ["shop.orders", "shop.customers", "sum_of_all"]

    assert completions("su", names) == ["sum_of_all", "sum", "summarize"]
    assert completions("SHOP.o", names) == ["shop.orders"]
    assert completions("sel", names) == ["select"]
    assert completions("SEL", names) == ["SELECT"]


def test_without_a_letter_only_names_are_offered():
    assert completions("select ", ["shop.orders"]) == ["shop.orders"]


def test_the_words_that_need_quotes_are_those_of_duckdb():
    reserved = duckdb.sql(
        "select keyword_name from duckdb_keywords() where keyword_category in"
        " ('reserved', 'type_function')"
    ).fetchall()

    assert {name for (name,) in reserved} <= RESERVED
    assert quoted_name("at") == '"at"'
