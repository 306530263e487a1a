"""Statements and plans made by hand, for tests of what runs them."""

from headwater.model.type_text import parse_type
from headwater.pipelines.sql.names import DeclaredTable, TableName
from headwater.pipelines.sql.statements import PhysicalColumn, SourceText
from headwater.pipelines.sql.steps import EventTime, InsertRows, Plan, ReadTable


def text(sql: str) -> SourceText:
    return SourceText(sql, 1, 1, sql)


def column(name: str, kind: str = "BIGINT") -> PhysicalColumn:
    return PhysicalColumn(name=name, type=parse_type(kind))


def table(name: str = "t", **fields) -> DeclaredTable:
    fields.setdefault("columns", (column("id"), column("item", "STRING")))
    return DeclaredTable(name=TableName("c", "d", name), **fields)


def copy_plan(source: DeclaredTable, *, columns=("id",), delay_ms: int | None = None) -> Plan:
    """Return a plan that copies a stream of a table into `sink`."""
    watermark = None if delay_ms is None else EventTime(column="at", delay_ms=delay_ms)
    read = ReadTable(
        view="v",
        table=source,
        is_streaming=True,
        columns=columns,
        options=source.options,
        watermark=watermark,
    )
    return Plan(views=(read,), action=InsertRows(view="v", table=table("sink"), columns=columns))
