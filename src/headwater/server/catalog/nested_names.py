"""Names of the fields inside nested columns."""

from collections import Counter

from headwater.errors import InvalidTableError
from headwater.model.path import check_free_name
from headwater.model.types import ArrayType, DataType, MapType, RowType


def check_nested_names(column: str, data_type: DataType) -> None:
    """Check that the fields of each row inside a column have different, non-empty names."""
    match data_type:
        case ArrayType(element=element):
            check_nested_names(column, element)
        case MapType(key=key, value=value):
            check_nested_names(column, key)
            check_nested_names(column, value)
        case RowType():
            _check_fields(column, data_type)
        case _:
            return


def _check_fields(column: str, row: RowType) -> None:
    if not row.fields:
        raise InvalidTableError(f"The column '{column}' holds a row without fields.")
    names = Counter(field.name for field in row.fields)
    if "" in names:
        raise InvalidTableError(f"The column '{column}' holds a field without name.")
    if repeated := sorted(name for name, count in names.items() if count > 1):
        raise InvalidTableError(
            f"The column '{column}' holds fields of the same name: {', '.join(repeated)}."
        )
    for field in row.fields:
        check_free_name(f"The column '{column}' holds a field whose name", field.name)
        check_nested_names(column, field.type)
