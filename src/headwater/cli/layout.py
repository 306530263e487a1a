"""The columns of a printed table: how wide they are, and what stands in a line."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from rich import cells as rich_cells

NULL = "NULL"
GAP = "  "
CUT = "…"
WIDTH_MIN = 6
WIDTH_USUAL = 12
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Say what a table is made for: a terminal of some width, rows that keep coming, colours."""

    width: int | None = None
    streams: bool = False
    styled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Hold the names, widths and sides of the columns of a table."""

    names: tuple[str, ...]
    widths: tuple[int, ...]
    numeric: tuple[bool, ...]
    look: Look

    @classmethod
    def of(cls, schema: pa.Schema, cells: Sequence[Sequence[str | None]], look: Look) -> "Layout":
        """Return the layout for the first rows, made to fit a width where there is one."""
        names = tuple(map(clean, schema.names))
        numeric = tuple(_is_numeric(field.type) for field in schema)
        # The head of a stream stands before its later rows are known.
        least = WIDTH_USUAL if look.streams else 0
        wanted = [
            max([least, cell_len(name), *(cell_len(_shown(cell)) for cell in column)])
            for name, column in zip(names, cells, strict=True)
        ]
        widths = wanted if look.width is None else fitted(wanted, numeric, width=look.width)
        return cls(names=names, widths=tuple(widths), numeric=numeric, look=look)

    def head(self) -> str:
        """Return the line of names and the line below it."""
        names = _joined([self._placed(i, name) for i, name in enumerate(self.names)])
        rule = GAP.join("─" * width for width in self.widths)
        return f"{_BOLD}{names}{_PLAIN}\n{rule}\n" if self.look.styled else f"{names}\n{rule}\n"

    def line(self, cells: Sequence[str | None]) -> str:
        """Return one row."""
        placed = [self._placed(i, _shown(cell)) for i, cell in enumerate(cells)]
        if self.look.styled:
            placed = [
                f"{_DIM}{text}{_PLAIN}" if cell is None else text
                for text, cell in zip(placed, cells, strict=True)
            ]
        return _joined(placed) + "\n"

    def _placed(self, column: int, text: str) -> str:
        width, long = self.widths[column], cell_len(text)
        # Half a number would be another number: it takes the room that it needs.
        if self.numeric[column]:
            return " " * (width - long) + text
        if long > width and self.look.width is not None:
            return rich_cells.set_cell_size(text, width - 1) + CUT
        return text + " " * (width - long)


def fitted(wanted: Sequence[int], kept: Sequence[bool], *, width: int) -> list[int]:
    """Take room from the widest columns until a line fits, or every column is narrow."""
    widths = list(wanted)
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0:
        wide = [i for i, each in enumerate(widths) if each > WIDTH_MIN and not kept[i]]
        if not wide:
            break
        widest = max(wide, key=lambda place: widths[place])
        widths[widest] -= 1
        over -= 1
    return widths


def cell_len(text: str) -> int:
    """Return how many places a text takes; most letters take one, some two."""
    return len(text) if text.isascii() else rich_cells.cell_len(text)


def clean(text: str) -> str:
    """Return text without what moves the cursor or changes the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _joined(cells: Sequence[str]) -> str:
    return GAP.join(cells).rstrip(" ")


def _shown(cell: str | None) -> str:
    return NULL if cell is None else clean(cell)


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
