"""Cut a script into statements: at each semicolon that ends one.

Semicolons in strings, names and comments end nothing, nor do those between `BEGIN` and `END` of a
statement set.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headwater.pipelines.sql.dialect import tokenize
from headwater.pipelines.sql.faults import fault
from headwater.pipelines.sql.statements import SourceText

_PIECES = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|`(?:[^`]|``)*`|['`\"]|/\*", re.DOTALL)
_OPENED = {"'": "text in single quotes", "`": "a name in backticks", "/*": "a comment"}
_SET_WORDS_MAX = 8
_SIZE_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ScriptPiece:
    """One statement of a script: its tokens, without the semicolon, and its text."""

    source: SourceText
    tokens: Sequence[Token] = field(repr=False)
    is_ended: bool = True


def split(text: str) -> tuple[ScriptPiece, ...]:
    """Return the statements of a script, in order."""
    whole = SourceText(text, 1, 1, text)
    if len(text) > _SIZE_MAX:
        raise fault(whole, "The script is larger than 4 MiB.", hint="Split it into several.")
    if (opened := _opened(text)) is not None:
        kind, at = opened
        if kind == '"':
            raise fault(
                whole,
                "Double quotes are not used here.",
                hint="Write names in `backticks` and text in 'single quotes'.",
                at=at,
            )
        raise fault(whole, f"{_OPENED[kind].capitalize()} is not closed.", at=at)
    try:
        tokens = tokenize(text)
    except TokenError as error:
        raise fault(whole, f"The script cannot be read: {error}.") from error
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return tuple(_piece(text, each, starts, is_ended=ended) for each, ended in _cut(tokens))


def is_complete(text: str) -> bool:
    """Tell whether a text ends with a whole statement, so that a shell can run it."""
    opened = _opened(text)
    if opened is not None:
        return opened[0] == '"'  # an error, which the reader should see
    pieces = split(text)
    return bool(pieces) and pieces[-1].is_ended


def _opened(text: str) -> tuple[str, int] | None:
    """Return the quote or comment that nothing closes, and where it begins."""
    for match in _PIECES.finditer(text):
        if match[0] in ("'", "`", '"', "/*"):
            return match[0], match.start()
    return None


def _cut(tokens: Sequence[Token]) -> Iterator[tuple[list[Token], bool]]:
    piece: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON and not _is_inside_set(piece):
            if piece:
                yield piece, True
            piece = []
        else:
            piece.append(token)
    if piece:
        yield piece, False


def _is_inside_set(piece: Sequence[Token]) -> bool:
    """Tell whether a semicolon after these tokens belongs to a statement set."""
    words = [each.text.upper() for each in piece[:_SET_WORDS_MAX]]
    if "STATEMENT" not in words or words[0] not in ("EXECUTE", "EXPLAIN", "BEGIN", "STATEMENT"):
        return False
    at = words.index("STATEMENT")
    if words[at + 1 : at + 2] != ["SET"]:
        return False
    if words[0] != "BEGIN" and words[at + 2 : at + 3] != ["BEGIN"]:
        return False
    ends = piece[-1].text.upper() == "END" and piece[-2].text.upper() in (";", "BEGIN")
    return not ends


def _piece(text: str, tokens: list[Token], starts: Sequence[int], *, is_ended: bool) -> ScriptPiece:
    start, end = tokens[0].start, tokens[-1].end + 1
    line = bisect_right(starts, start)
    source = SourceText(text[start:end], line, start - starts[line - 1] + 1, text)
    return ScriptPiece(source, tokens, is_ended)
