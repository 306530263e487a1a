"""The table function `fluss_read` of DataFusion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from datafusion import Expr
from datafusion.catalog import Table

from headwater.client.union.positions import MODES
from headwater.engines.datafusion.reading import table_of
from headwater.engines.storages import Place
from headwater.engines.viewing import Asked, Position

NAME = "fluss_read"
_WAYS = (
    f"Write {NAME}(bootstrap, database, table[, mode[, token]]), or {NAME}(database, table[, mode[,"
    " token]]) where a storage was installed."
)
_Texts = Sequence[str | None]
_SHORT = (2, 3, 4)
_FULL = (3, 4, 5)
_ONLY_SHORT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FlussRead:
    """Read tables: of the storage that each call names, or of the one that is installed."""

    at: Place | None = None
    lake: Mapping[str, str] | None = field(default=None, repr=False)

    def __call__(self, *arguments: Expr) -> Table:
        """Return the rows of a table as they are now, or at the position of a token."""
        try:
            return self._table([_text(argument) for argument in arguments])
        except ValueError as fault:
            # DataFusion shows people the traceback too, which is no help to them.
            raise fault.with_traceback(None) from None

    def _table(self, given: _Texts) -> Table:
        if self.at is not None and len(given) in _SHORT and _is_short(given):
            return self._read(self.at, given)
        if len(given) not in _FULL:
            raise ValueError(f"{NAME} was called with {len(given)} arguments. {_WAYS}")
        return self._read(_named(given[0], "bootstrap"), given[1:])

    def _read(self, at: Place, given: _Texts) -> Table:
        database, table, *position = given
        asked = Asked(
            table=f"{_part(database)}.{_part(table)}",
            position=_position(*position),
            lake=self.lake,
        )
        return table_of(at, asked)


def _is_short(given: _Texts) -> bool:
    """Tell whether arguments begin with a database, and not with a storage."""
    if len(given) == _ONLY_SHORT:
        return True
    first, _, third, *_ = given
    if first is None or any(mark in first for mark in ":/\\"):
        return False
    # A directory may be called like a database; then a mode behind the table decides.
    return third is None or third.lower() in MODES or not Path(first).is_dir()


def _position(mode: str | None = None, token: str | None = None) -> Position:
    return Position(mode=(mode or "union").lower(), token=token or None)


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
