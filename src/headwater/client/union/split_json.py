"""The JSON form of plans, for engines that share splits out by other means than pickle.

The form is part of the public interface: `docs/reference/split-json.md` describes it.
"""

from collections.abc import Sequence

from headwater.client.reading.filters import Filter
from headwater.client.union.split import Pruned, ReadPlan, UnionSplit
from headwater.client.union.token import token_text
from headwater.client.union.view import TableView
from headwater.client.union.wording import filter_text
from headwater.model.type_json import Json, type_to_json

VERSION = 1


def plan_document(
    view: TableView,
    plan: ReadPlan,
    *,
    columns: Sequence[str] | None = None,
    wanted: Filter | None = None,
) -> dict[str, Json]:
    """Write a plan with what a worker has to know beside its split."""
    names = view.table.schema.names if columns is None else tuple(columns)
    snapshot = view.snapshot
    return {
        "version": VERSION,
        "table": str(view.table.path),
        "table_id": view.table.table_id,
        "schema_id": view.table.schema_id,
        "token": token_text(view),
        "snapshot_id": None if snapshot is None else snapshot.snapshot_id,
        "primary_key": list(view.table.schema.primary_key),
        "columns": [_column(view, name) for name in names],
        "filter": None if wanted is None else filter_text(wanted),
        "splits": [split_document(split) for split in plan.splits],
        "pruned": [_pruned_document(each) for each in plan.pruned],
        "notes": list(view.notes),
    }


def split_document(split: UnionSplit) -> dict[str, Json]:
    """Write a split."""
    return split.to_json()


def split_of_document(document: Json) -> UnionSplit:
    """Read a split, or say what is wrong with it."""
    return UnionSplit.from_json(document)


def _column(view: TableView, name: str) -> Json:
    column = view.table.schema.column(name)
    return {"id": column.column_id, "name": name, "type": type_to_json(column.type)}


def _pruned_document(each: Pruned) -> Json:
    return {"what": each.what, "why": each.why, "rows": each.row_count, "bytes": each.byte_count}
