"""What ALTER TABLE asks for, as changes of the table."""

import json
from collections.abc import Callable, Iterable, Mapping

from py4j.java_gateway import JavaObject

from headwater.client.spark_types import columns_of_struct
from headwater.client.sync.table import Table
from headwater.engines.spark.catalog.properties import FIXED
from headwater.errors import InvalidAlterError


def alter(table: Table, changes: Iterable[JavaObject]) -> None:
    """Change a table as asked, one change after the other; all are known before the first."""
    read = [_reader(change)(change) for change in changes]
    for apply in read:
        apply(table)


Change = Callable[[Table], None]


def _reader(change: JavaObject) -> Callable[[JavaObject], Change]:
    kind = str(change.getClass().getSimpleName())
    if kind not in _READERS:
        raise InvalidAlterError(
            f"Tables cannot be altered by {_spelled(kind)}.",
            hint="They take ADD, DROP and RENAME COLUMN, and SET and UNSET TBLPROPERTIES.",
        )
    return _READERS[kind]


def _spelled(kind: str) -> str:
    return "".join(f" {each.lower()}" if each.isupper() else each for each in kind).strip()


def _add_column(change: JavaObject) -> Change:
    name = _name(change)
    if change.position() is not None:
        raise InvalidAlterError(
            f"The column '{name}' cannot have a place among the others.",
            hint="Leave FIRST or AFTER out: it comes last.",
        )
    field = {
        "name": name,
        "type": json.loads(change.dataType().json()),
        "nullable": bool(change.isNullable()),
        "metadata": {},
    }
    (column,) = columns_of_struct({"fields": [field]})
    comment = change.comment()
    return lambda table: table.add_column(name, column.type, comment=comment)


def _drop_column(change: JavaObject) -> Change:
    name, missing_ok = _name(change), bool(change.ifExists())

    def drop(table: Table) -> None:
        if not missing_ok or name in table.schema.names:
            table.drop_column(name)

    return drop


def _rename_column(change: JavaObject) -> Change:
    name, new = _name(change), str(change.newName())
    return lambda table: table.rename_column(name, new)


def _set_property(change: JavaObject) -> Change:
    name, text = _property(change), str(change.value())
    return lambda table: table.set_options({name: text})


def _remove_property(change: JavaObject) -> Change:
    name = _property(change)
    return lambda table: table.reset_options(name)


def _property(change: JavaObject) -> str:
    name = str(change.property())
    if name.lower() in FIXED:
        raise InvalidAlterError(
            f"'{name}' of a table cannot be changed.", hint="Make another table."
        )
    return name


def _name(change: JavaObject) -> str:
    names = tuple(change.fieldNames())
    if len(names) > 1:
        raise InvalidAlterError(
            f"{'.'.join(names)} is a field within a column, which cannot be altered.",
            hint="Add a column of the new type.",
        )
    return str(names[0])


_READERS: Mapping[str, Callable[[JavaObject], Change]] = {
    "AddColumn": _add_column,
    "DeleteColumn": _drop_column,
    "RenameColumn": _rename_column,
    "SetProperty": _set_property,
    "RemoveProperty": _remove_property,
}
