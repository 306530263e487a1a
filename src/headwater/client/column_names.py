"""Names of columns as people give them, checked against those that a table has."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa

from headwater.errors import InvalidValueError

_SHOWN_MAX = 12


def chosen(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of columns that were asked for, None for all."""
    return None if columns is None else names(columns)


def names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return column names, of which a single one may be given as it is."""
    return (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True, slots=True)
class Names:
    """Hold the names that may be given, and what they name."""

    known: tuple[str, ...]
    what: str

    @classmethod
    def of(cls, fields: Iterable[pa.Field], *, what: str = "column") -> "Names":
        """Take the names of fields."""
        return cls(tuple(field.name for field in fields), what)

    def check_known(self, given: Sequence[str]) -> None:
        """Refuse names that are not known, or that are given twice."""
        for name in given:
            if name not in self.known:
                raise InvalidValueError(f"There is no {self.what} '{name}'.", hint=self._hint(name))
        if repeated := [name for name, count in Counter(given).items() if count > 1]:
            raise InvalidValueError(f"The {self.what} '{repeated[0]}' is given twice.")

    def check_optional(self, field: pa.Field) -> None:
        """Refuse to leave out a field that takes no nulls."""
        if not field.nullable:
            raise InvalidValueError(
                f"The {self.what} '{field.name}' is missing, but it is declared NOT NULL.",
                hint="Give it a value in every row.",
            )

    def _hint(self, name: str) -> str:
        if near := get_close_matches(name, self.known, n=1):
            return f"Did you mean '{near[0]}'?"
        more = ", …" if len(self.known) > _SHOWN_MAX else ""
        return f"There are {', '.join(self.known[:_SHOWN_MAX])}{more}."
