"""Read the tokens of one statement from left to right."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headwater.errors import InvalidTableError, StatementError
from headwater.model.types import DataType
from headwater.pipelines.sql.dialect import (
    FlinkSyntaxError,
    parse_expression_tokens,
    parse_query_tokens,
)
from headwater.pipelines.sql.faults import fault, place_of
from headwater.pipelines.sql.names import NAME_PARTS_MAX
from headwater.pipelines.sql.script import ScriptPiece
from headwater.pipelines.sql.statements import Name, ParsedQuery, SourceText
from headwater.pipelines.sql.types import flink_type

T = TypeVar("T")
_TEXTS = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.HINT, TokenType.NUMBER)
_OPENING = (TokenType.L_PAREN, TokenType.LT)
_CLOSING = (TokenType.R_PAREN, TokenType.GT)


class TokenCursor:
    """The tokens of a statement, and the next one."""

    __slots__ = ("_at", "_tokens", "source")

    def __init__(self, piece: ScriptPiece) -> None:
        self.source = piece.source
        self._tokens = piece.tokens
        self._at = 0

    # Looking.

    @property
    def is_at_end(self) -> bool:
        """Tell whether all tokens are read."""
        return self._at >= len(self._tokens)

    @property
    def token(self) -> Token | None:
        """The next token, or None at the end."""
        return None if self.is_at_end else self._tokens[self._at]

    @property
    def word(self) -> str:
        """The next word in capitals; nothing for text, numbers and names in backticks."""
        return _words(self._tokens[self._at])[0] if not self.is_at_end else ""

    def sees(self, *words: str) -> bool:
        """Tell whether these words come next."""
        return self._matched(words) is not None

    def takes(self, *words: str) -> bool:
        """Go past these words if they come next."""
        end = self._matched(words)
        if end is not None:
            self._at = end
        return end is not None

    def _matched(self, words: Sequence[str]) -> int | None:
        at, left = self._at, list(words)
        while left:
            if at >= len(self._tokens):
                return None
            found = _words(self._tokens[at])
            if left[: len(found)] != found:
                return None
            left = left[len(found) :]
            at += 1
        return at

    def expect(self, *words: str, hint: str = "") -> None:
        """Go past words that must come next."""
        if not self.takes(*words):
            raise self.wrong(f"Expected {' '.join(words)}", hint=hint)

    def end(self) -> None:
        """Raise if anything is left."""
        if self.token is not None:
            raise self.wrong("Expected the end of the statement")

    # Errors.

    def wrong(self, message: str, *, hint: str = "", at: Token | None = None) -> StatementError:
        """Make an error at the next token, or at another."""
        token = at or self.token
        if token is None:
            return self.at(f"{message}, but the statement ends here.", len(self.source.text), hint)
        shown = token.text if token.token_type != TokenType.STRING else f"'{token.text}'"
        return self.at(f"{message}, not {shown}.", self._offset(token), hint)

    def refused(self, message: str, *, hint: str, at: Token | None = None) -> StatementError:
        """Make an error about something that is understood and not supported."""
        token = at or self.token or self._tokens[-1]
        return self.at(message, self._offset(token), hint)

    def at(self, message: str, offset: int, hint: str = "") -> StatementError:
        """Make an error at a character of the statement."""
        return fault(self.source, message, hint=hint, at=max(0, offset))

    def _offset(self, token: Token) -> int:
        return token.start - self._tokens[0].start

    def caught(self, error: FlinkSyntaxError) -> StatementError:
        """Give an error of the query's parser its place."""
        message = error.args[0].split(". Line")[0].rstrip(".")
        offset = error.start - self._tokens[0].start
        return self.at(f"{_plain(message)}.", min(offset, len(self.source.text)), error.advice)

    # Reading.

    def advance(self) -> Token:
        """Go past any token."""
        token = self.token
        if token is None:
            raise self.wrong("Expected more")
        self._at += 1
        return token

    def identifier(self, what: str = "a name") -> str:
        """Read a name of one part."""
        token = self.token
        if token is None or token.token_type in (TokenType.NUMBER, TokenType.STRING):
            raise self.wrong(f"Expected {what}")
        is_word = token.token_type == TokenType.IDENTIFIER or token.text[0].isidentifier()
        if not is_word:
            raise self.wrong(f"Expected {what}")
        self._at += 1
        return token.text

    def name(self, what: str = "a name") -> Name:
        """Read a name of one to three parts."""
        first = self.token
        parts = [self.identifier(what)]
        while self.takes("."):
            parts.append(self.identifier(what))
        if len(parts) > NAME_PARTS_MAX:
            raise self.refused(
                f"A name has {len(parts)} parts.",
                hint="Write catalog.database.table; a part with dots in it goes in `backticks`.",
                at=first,
            )
        return tuple(parts)

    def string(self, what: str = "text in single quotes") -> str:
        """Read text in single quotes."""
        token = self.token
        if token is None or token.token_type != TokenType.STRING:
            raise self.wrong(f"Expected {what}")
        self._at += 1
        return token.text

    def number(self) -> int:
        """Read a whole number."""
        token = self.token
        if token is None or not token.text.isdigit():
            raise self.wrong("Expected a whole number")
        self._at += 1
        return int(token.text)

    def comment(self) -> str | None:
        """`COMMENT 'text'`, if it comes next."""
        return self.string() if self.takes("COMMENT") else None

    def listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Read what stands between parentheses, separated by commas."""
        self.expect("(")
        found = [read()]
        while self.takes(","):
            found.append(read())
        self.expect(")")
        return tuple(found)

    def options(self) -> dict[str, str]:
        """Read `('key' = 'value', …)`."""
        self.expect("(")
        found: dict[str, str] = {}
        while not self.takes(")"):
            token = self.token
            key = self.string("an option's name in single quotes")
            if key in found:
                raise self.refused(f"The option '{key}' is given twice.", hint="", at=token)
            self.expect("=")
            found[key] = self.string("an option's value in single quotes")
            if not self.sees(")"):
                self.expect(",")
        return found

    def partition(self) -> dict[str, str]:
        """Read `(day = '2026-11-18', hour = 3)`, with values as text."""
        return dict(self.listed(self._partition_value))

    def _partition_value(self) -> tuple[str, str]:
        name = self.identifier("a partition column")
        self.expect("=")
        return name, self.advance().text

    # Types, expressions and queries.

    def until(self, *stops: str) -> list[Token]:
        """Read up to a comma, a closing parenthesis or one of some words, at this depth."""
        found: list[Token] = []
        depth = 0
        while (token := self.token) is not None:
            if depth == 0 and (token.text in (",", ")") or _words(token)[0] in stops):
                break
            depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
            found.append(token)
            self._at += 1
        return found

    def column_type(self) -> DataType:
        """Read a type, with `NOT NULL` if it is there."""
        first = self.token
        tokens = self.until("METADATA", "COMMENT", "PRIMARY", "UNIQUE", "CONSTRAINT", "FIRST",
                            "AFTER", "AS", "DEFAULT")  # fmt: skip
        if not tokens:
            raise self.wrong("Expected a type")
        text = self.text_of(tokens)
        try:
            return flink_type(text)
        except InvalidTableError as error:
            raise self.refused(error.message, hint=error.hint, at=first) from None

    def expression(self, tokens: list[Token]) -> exp.Expr:
        """Parse tokens as an expression."""
        if not tokens:
            raise self.wrong("Expected an expression")
        try:
            return parse_expression_tokens(tokens, self.source.script)
        except FlinkSyntaxError as error:
            raise self.caught(error) from None

    def query(self) -> ParsedQuery:
        """Parse all that is left as a query."""
        tokens = list(self._tokens[self._at :])
        if not tokens:
            raise self.wrong("Expected a query")
        self._at = len(self._tokens)
        try:
            tree = parse_query_tokens(tokens, self.source.script)
        except FlinkSyntaxError as error:
            raise self.caught(error) from None
        if not isinstance(tree, exp.Query | exp.Values):
            raise self.wrong("Expected a query such as SELECT, WITH or VALUES", at=tokens[0])
        return ParsedQuery(self.source_of(tokens), tree)

    def rest(self) -> ScriptPiece:
        """Take all that is left as a statement of its own."""
        tokens = list(self._tokens[self._at :])
        if not tokens:
            raise self.wrong("Expected more")
        self._at = len(self._tokens)
        return ScriptPiece(self.source_of(tokens), tokens)

    def text_of(self, tokens: Sequence[Token]) -> str:
        """What was written, from the first to the last of some tokens."""
        return self.source.script[tokens[0].start : tokens[-1].end + 1]

    def source_of(self, tokens: Sequence[Token]) -> SourceText:
        """Text and place of some tokens."""
        line, column = place_of(self.source, self._offset(tokens[0]))
        return SourceText(self.text_of(tokens), line, column, self.source.script)


def _words(token: Token) -> list[str]:
    """The words of a token in capitals; some tokens are several, such as `PRIMARY KEY`."""
    if token.token_type in _TEXTS:
        return [""]
    return token.text.upper().split() or [""]


def _plain(message: str) -> str:
    """Say what sqlglot says in words for people who have never heard of it."""
    if message.startswith(("Invalid expression / Unexpected token", "Required keyword")):
        return "This cannot be parsed here"
    if "but got <Token" in message:
        return message.split(" but got <Token", maxsplit=1)[0]
    return message
