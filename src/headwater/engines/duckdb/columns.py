"""Which columns DuckDB can show."""

from headwater.errors import UnsupportedError
from headwater.model.schema import Schema


def check_columns(schema: Schema) -> None:
    """Refuse names that DuckDB cannot tell apart, as it does not look at their case."""
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise UnsupportedError(
                f"DuckDB cannot tell the columns '{other}' and '{name}' apart.",
                hint="Rename one of them with table.rename_column.",
            )
