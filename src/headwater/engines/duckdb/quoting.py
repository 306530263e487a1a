"""Names and texts as they stand in SQL, whatever is in them."""

from collections.abc import Iterable


def name_sql(name: str) -> str:
    """Return a name in the form that SQL takes as it is."""
    return '"' + name.replace('"', '""') + '"'


def text_sql(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def list_sql(texts: Iterable[str]) -> str:
    """Return texts as the literal of a list."""
    return "[" + ", ".join(map(text_sql, texts)) + "]"
