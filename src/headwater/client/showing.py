"""How the things of a client are shown, such as `Scan('shop.orders', columns=['id', 'price'])`."""

from collections.abc import Sequence

COLUMNS_SHOWN_MAX = 8


def shown(thing: object, name: str, **fields: object) -> str:
    """Return the class of a thing, its name, and what else is worth knowing of it."""
    parts = [repr(name), *(f"{key}={value!r}" for key, value in fields.items())]
    return f"{type(thing).__name__}({', '.join(parts)})"


def few(columns: Sequence[str]) -> list[str]:
    """Return the names of columns, the first of them where there are many."""
    more = ["…"] if len(columns) > COLUMNS_SHOWN_MAX else []
    return [*columns[:COLUMNS_SHOWN_MAX], *more]
