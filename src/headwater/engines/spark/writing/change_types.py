"""Texts that say what a row does to its table, as the changelogs of several systems spell them."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import InvalidValueError

Mask = npt.NDArray[np.bool_]


class Deed(IntEnum):
    """Name what becomes of a row in the table."""

    UPSERT = 0
    DELETE = 1
    SKIP = 2
    """The row as it was before an update: the row after it comes as well."""


_DEEDS = {
    "+i": Deed.UPSERT,
    "+u": Deed.UPSERT,
    "-u": Deed.SKIP,
    "-d": Deed.DELETE,
    "insert": Deed.UPSERT,
    "update": Deed.UPSERT,
    "update_after": Deed.UPSERT,
    "update_postimage": Deed.UPSERT,
    "update_before": Deed.SKIP,
    "update_preimage": Deed.SKIP,
    "delete": Deed.DELETE,
}
_INSERTS = ("+i", "insert")
_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Tell of each row of a batch whether it is written, and whether that deletes its key."""

    kept: Mask
    deleted: Mask


def changes_of(column: pa.Array, *, name: str) -> Changes:
    """Read a column of change types, or say which text is none."""
    deeds = _coded(column, name=name)
    return Changes(deeds != Deed.SKIP, deeds == Deed.DELETE)


def check_inserts(column: pa.Array, *, name: str, path: str) -> None:
    """Refuse rows that do anything but insert, which a log table cannot do."""
    for text in _distinct(column, name=name):
        if text.lower() not in _INSERTS:
            raise InvalidValueError(
                f"The column '{name}' says '{_short(text)}', but {path} has no primary key, so"
                " that rows can only be inserted.",
                hint=f"Keep the inserts, or drop the column '{name}'.",
            )


def _coded(column: pa.Array, *, name: str) -> npt.NDArray[np.uint8]:
    """Return the deed of each row; the texts are looked at once each."""
    encoded = column.dictionary_encode()
    deeds = [_deed(text, name=name) for text in _distinct(encoded, name=name)]
    return np.array(deeds, np.uint8)[encoded.indices.to_numpy()]


def _distinct(column: pa.Array, *, name: str) -> list[str]:
    if column.null_count:
        raise InvalidValueError(
            f"The column '{name}' says nothing in {column.null_count} rows.",
            hint=f"Say {_texts()} in every row.",
        )
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts: list[str] = encoded.dictionary.to_pylist()
    return texts


def _deed(text: str, *, name: str) -> Deed:
    deed = _DEEDS.get(text.lower())
    if deed is None:
        raise InvalidValueError(
            f"The column '{name}' says '{_short(text)}', which is no change.",
            hint=f"Say {_texts()}.",
        )
    return deed


def _texts() -> str:
    return f"{', '.join(list(_DEEDS)[:-1])} or {list(_DEEDS)[-1]}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
