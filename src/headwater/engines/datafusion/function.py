"""The table function `fluss_read` of DataFusion."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from datafusion import Expr
from datafusion.catalog import Table

from headwater.engines.datafusion.reading import table_of
from headwater.engines.storages import Place
from headwater.engines.viewing import Asked, Position

NAME = "fluss_read"
_WAYS = (
    f"Write {NAME}(bootstrap, database, table[, mode[, token]]), or {NAME}(database, table) where"
    " a storage was installed."
)
_SHORT = 2
_FULL = (3, 4, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlussRead:
    """Read tables: of the storage that each call names, or of the one that is installed."""

    at: Place | None = None
    lake: Mapping[str, str] | None = field(default=None, repr=False)

    def __call__(self, *arguments: Expr) -> Table:
        """Return the rows of a table as they are now, or at the position of a token."""
        given = [_text(argument) for argument in arguments]
        if len(given) == _SHORT and self.at is not None:
            return table_of(self.at, Asked(table=".".join(map(_part, given)), lake=self.lake))
        if len(given) not in _FULL:
            raise ValueError(f"{NAME} was called with {len(given)} arguments. {_WAYS}")
        bootstrap, database, table, *position = given
        asked = Asked(
            table=f"{_part(database)}.{_part(table)}",
            position=_position(*position),
            lake=self.lake,
        )
        return table_of(_named(bootstrap, "bootstrap"), asked)


def _position(mode: str | None = None, token: str | None = None) -> Position:
    return Position(mode=mode or "union", token=token or None)


def _part(name: str | None) -> str:
    return _named(name, "database and table")


def _named(text: str | None, what: str) -> str:
    if not text:
        raise ValueError(f"{NAME} was called without {what}. {_WAYS}")
    return text


def _text(argument: Expr) -> str | None:
    try:
        value: object = argument.python_value()
    except TypeError as fault:
        raise ValueError(f"{NAME} takes constant texts, not {argument}. {_WAYS}") from fault
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{NAME} takes texts, not {value!r}. {_WAYS}")
