"""A script is cut into statements, and errors show where they are."""

import pytest

from headwater.errors import StatementError
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.script import is_complete, split
from headwater.pipelines.sql.statements import InsertSetStatement
from tests.cases import cases

SET = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END"


@cases(
    "text, count",
    [
        ("", 0),
        (";;", 0),
        ("SELECT 1", 1),
        ("SELECT 1;", 1),
        ("SELECT ';'; SELECT '''; '", 2),
        ("SELECT 1 -- ; not here\n; SELECT 2", 2),
        ("SELECT 1 /* ; */; /* ; */", 1),
        ("SELECT `a;b` FROM t; SELECT 2", 2),
        (f"{SET}; SELECT 1", 2),
        ("BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END; SELECT 1", 2),
        ("SELECT CASE WHEN a THEN 1 END; SELECT 2", 2),
        (f"EXPLAIN {SET.removeprefix('EXECUTE ')}; SELECT 1;", 2),
    ],
)
def test_a_script_is_cut_at_the_semicolons_that_end_statements(text, count):
    assert len(split(text)) == count


def test_a_statement_knows_its_text_and_its_place():
    _, second = split("SELECT 1;\n  -- about it\n  SELECT\n 2 ;")

    assert second.source.text == "SELECT\n 2"
    assert (second.source.line, second.source.column) == (3, 3)


@cases(
    "text, complete",
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT 1; SELECT 2", False),
        (f"{SET[:-4]};", False),
        (f"{SET};", True),
        ("SELECT 1; /* open", False),
        ("", False),
    ],
)
def test_a_shell_learns_whether_a_statement_is_complete(text, complete):
    assert is_complete(text) is complete


def test_a_case_end_does_not_end_a_statement_set():
    (found,) = parse(
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO a SELECT CASE WHEN x THEN 1 ELSE 2 END; INSERT INTO b SELECT 1; END"
    )

    assert isinstance(found, InsertSetStatement)
    assert len(found.inserts) == 2


@cases(
    "text, line, column, words",
    [
        ("SELEC 1", 1, 1, "Did you mean 'SELECT'?"),
        ("SELECT 1;\nSELECT 'abc", 2, 8, "not closed"),
        ('SELECT "a"', 1, 8, "backticks"),
        ("SELECT a\nFROM t WHERE", 2, 13, "parsed here"),
        ("CREATE TABLE t (a MULTISET<INT>)", 1, 19, "MAP<t, INT>"),
        ("CREATE TABLE t (a RAW('x', 'y'))", 1, 19, "RAW is not supported"),
        ("CREATE TABLE t (a INTERVAL DAY)", 1, 19, "BIGINT"),
        ("CREATE TABLE t (a TIMESTAMP(3) WITH TIME ZONE)", 1, 19, "TIMESTAMP_LTZ"),
        ("CREATE TABLE t (a INT,\n PRIMARY KEY (a))", 2, 17, "NOT ENFORCED"),
        ("CREATE TABLE t (a INT, WATERMARK FOR a AS f(a))", 1, 43, "a - INTERVAL '5' SECOND"),
        ("CREATE TABLE t (a INT) WITH (a = 'b')", 1, 30, "single quotes"),
        ("CREATE TABLE t (a INT) WITH ('a' = 'b', 'a' = 'c')", 1, 41, "twice"),
        ("CREATE FUNCTION f AS 'x'", 1, 8, "spark.udf.register"),
        ("ADD JAR 'x.jar'", 1, 1, "no jars"),
        ("STOP JOB 'x' WITH SAVEPOINT", 1, 14, "checkpoint"),
        ("ALTER TABLE t DROP PRIMARY KEY", 1, 20, "Create a new table"),
        ("SHOW TABELS", 1, 6, "Did you mean 'TABLES'?"),
        ("SELECT CAST(a AS FOO) FROM t", 1, 18, "There is no type 'FOO'"),
        ("SELECT * FROM t LIMIT 1 LIMIT 2", 1, 25, "multiple 'LIMIT'"),
        ("CREATE TABLE t (a INT, b AS a + )", 1, 32, "parsed here"),
        ("DROP TABLE w.x.y.z", 1, 12, "4 parts"),
    ],
)
def test_an_error_names_its_place_and_says_what_to_write(text, line, column, words):
    with pytest.raises(StatementError) as caught:
        parse(text)

    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in str(caught.value)


def test_an_error_shows_the_line_with_a_caret_below_the_place():
    with pytest.raises(StatementError) as caught:
        parse("SELECT 1;\nCREATE TABLE t (\n\tid BIGINTT\n)")

    *_, line, caret = str(caught.value).split("\n")
    assert line == "  \tid BIGINTT"
    assert caret == "  \t   ^"
