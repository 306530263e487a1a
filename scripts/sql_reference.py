"""The page of the functions of Flink SQL that Spark names otherwise, from their table."""

from collections.abc import Iterator

from headwater.pipelines.sql.functions import REFUSED, RULES, FunctionRule

_LETTERS = "xyzw"


def sql_functions_reference() -> Iterator[str]:
    """Yield the parts of docs/reference/sql-functions.md."""
    yield "# Functions of pipelines in SQL"
    yield (
        "[Pipelines in SQL](sql.md) take every function that Spark has. These are named or behave"
        " otherwise in Flink, and are written in Spark's words:"
    )
    rows = [_row(each) for each in RULES]
    yield "\n".join(["| in a script | in Spark | |", "| --- | --- | --- |", *rows])
    yield (
        "`array[n]` and `map['key']` count from 1 and give null for what is not there; `ARRAY[…]`,"
        " `MAP[…]` and `ROW(…)` make values. `COUNT(DISTINCT x)` in a stream is the size of a set"
        " that is kept as state. Functions of your own are registered with Spark:"
        ' `spark.udf.register("name", function)`.'
    )
    yield "## Refused"
    refused = [f"| `{_shown(each.name)}` | {each.hint} |" for each in REFUSED]
    yield "\n".join(["| function | instead |", "| --- | --- |", *refused])
    yield "[Settings and connectors](pipelines.md) have a page of their own."


def _row(rule: FunctionRule) -> str:
    if rule.arguments is None:
        return f"| `{rule.name}(…)` | `{_any(rule.spark)}` | {rule.note} |"
    spark = rule.spark
    for at, letter in enumerate(_LETTERS):
        spark = spark.replace(f"_{at}", letter)
    given = ", ".join(_LETTERS[: rule.arguments])
    return f"| `{_call(rule.name, given)}` | `{spark}` | {rule.note} |"


def _any(spark: str) -> str:
    return spark if "(" in spark else f"{spark}(…)"


def _call(name: str, given: str) -> str:
    return "FLOOR(y TO x)" if name == "FLOOR_TO" else f"{name}({given})"


def _shown(name: str) -> str:
    return "CEIL(time TO unit)" if name == "CEIL_TO" else name
