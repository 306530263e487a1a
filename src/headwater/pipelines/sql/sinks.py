"""The last view of a plan: the columns that a sink takes, in its order."""

from collections.abc import Mapping

from sqlglot import exp

from headwater.pipelines.sql.faults import fault, meant
from headwater.pipelines.sql.names import DeclaredTable
from headwater.pipelines.sql.reads import expression_tree
from headwater.pipelines.sql.relations import Relation, RowKind
from headwater.pipelines.sql.statements import InsertStatement, MetadataColumn, PhysicalColumn
from headwater.pipelines.sql.steps import CHANGE_COLUMN, ResultMode

_ROWS = "rows__"


def target_columns(table: DeclaredTable, statement: InsertStatement) -> list[str]:
    """The columns that an INSERT writes, in the order of the query; fixed partitions last."""
    writable = [
        each.name
        for each in table.columns
        if isinstance(each, PhysicalColumn)
        or (isinstance(each, MetadataColumn) and not each.is_virtual)
    ]
    for column in (*statement.columns, *statement.partition):
        if column not in writable:
            raise fault(
                statement.source,
                f"{table.name} has no column '{column}' that can be written.",
                hint=meant(column, writable) or f"Its columns are {', '.join(writable)}.",
            )
    if not statement.columns:
        return writable
    if len(set(statement.columns)) < len(statement.columns):
        raise fault(statement.source, "A column is written twice.", hint="Name each once.")
    missing = [each for each in table.key if each not in statement.columns]
    fixed = [each for each, value in statement.partition.items() if value is not None]
    if missing := [each for each in missing if each not in fixed]:
        raise fault(
            statement.source,
            f"The key of {table.name} needs '{missing[0]}', which is not written.",
            hint="Add it to the columns.",
        )
    return [*statement.columns, *(each for each in fixed if each not in statement.columns)]


def result_mode(relation: Relation) -> ResultMode:
    """Spark's output mode for these rows."""
    return ResultMode.UPDATE if relation.kind is RowKind.UPDATES else ResultMode.APPEND


def final_rows(
    tree: exp.Expr,
    relation: Relation,
    columns: tuple[str, ...] | None,
    *,
    fixed: Mapping[str, str] | None = None,
    order: tuple[str, ...] = (),
) -> exp.Expr:
    """Write the rows of a query under the names of a sink, with `_change_type` last."""
    is_same = columns == relation.columns and not fixed and not relation.has_changes
    if columns is None or (is_same and len(set(columns)) == len(columns)):
        return tree
    given = [exp.to_identifier(each, quoted=True) for each in _distinct_names(columns)]
    if relation.has_changes:
        given.append(exp.to_identifier(CHANGE_COLUMN))
    alias = exp.TableAlias(this=exp.to_identifier(_ROWS), columns=given)
    outputs: list[exp.Expr] = []
    for name in order or _distinct_names(columns):
        if fixed and name in fixed:
            outputs.append(exp.alias_(expression_tree(fixed[name]), name, quoted=True))
        else:
            outputs.append(exp.column(exp.to_identifier(name, quoted=True)))
    if relation.has_changes:
        outputs.append(_change(relation))
    return exp.Select(expressions=outputs).from_(exp.Subquery(this=tree, alias=alias))


def _distinct_names(columns: tuple[str, ...]) -> list[str]:
    """Number the later ones of equal names, as Flink does: `id`, `id0`."""
    found: list[str] = []
    for name in columns:
        new, count = name, 0
        while new in found:
            new, count = f"{name}{count}", count + 1
        found.append(new)
    return found


def _change(relation: Relation) -> exp.Expr:
    """Updates of which one half may be missing become a delete and an insert."""
    column = exp.column(CHANGE_COLUMN)
    if relation.kind is not RowKind.CHANGES or not relation.is_filtered:
        return column
    halves = (("update_before", "delete"), ("update_after", "insert"))
    ifs = [
        exp.If(
            this=exp.EQ(this=column.copy(), expression=exp.Literal.string(old)),
            true=exp.Literal.string(new),
        )
        for old, new in halves
    ]
    return exp.alias_(exp.Case(ifs=ifs, default=column), CHANGE_COLUMN)
