"""GRANT and REVOKE in SQL: `GRANT READ, WRITE ON shop.orders TO ada, GROUP analysts`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.cli.security.acl import conditions_on
from headwater.errors import RequestError
from headwater.model import acl

if TYPE_CHECKING:
    from headwater.client.sync.client import Client

# A comment, a string, a quoted name, a word, or any other sign.
_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/) | '(?P<text>(?:[^']|'')*)' | "(?P<name>(?:[^"]|"")+)" """
    r""" | (?P<dollar>\$\w*\$).*?(?P=dollar) | (?P<word>[\w*]+) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_VERBS = ("grant", "revoke")
_OTHER_WORDS = {"SELECT": "READ", "INSERT": "WRITE", "UPDATE": "WRITE", "DELETE": "WRITE"}
_FORM = (
    "Write GRANT operations [(columns)] ON [TABLE] database.table | DATABASE name | CLUSTER "
    "TO names [AT 'address'] [WHERE condition], or REVOKE ... FROM names."
)


@dataclass(frozen=True, slots=True)
class GrantStatement:
    """A GRANT or a REVOKE; a host of None stands for every host, or for any in a REVOKE."""

    is_grant: bool
    operations: tuple[acl.Operation, ...]
    resource: str
    principals: tuple[acl.Principal, ...]
    host: str | None = None
    columns: tuple[str, ...] = ()
    """The columns that may be read; empty for all."""
    where: str = ""
    """Which rows may be read; empty for all."""

    def run(self, client: "Client") -> int:
        """Change permissions, and return how many entries were granted or revoked."""
        names = [each.name for each in self.operations]
        changed = 0
        where = conditions_on(client, self.resource, [self.where]) if self.where else None
        for principal in map(str, self.principals):
            if self.is_grant:
                host = self.host or "*"
                granted = client.acls.grant(
                    principal,
                    names,
                    self.resource,
                    host=host,
                    columns=self.columns or None,
                    where=where,
                )
                changed += len(granted)
            else:
                changed += len(client.acls.revoke(principal, names, self.resource, host=self.host))
        return changed


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    # A name in quotes or a string is never a word of the language.
    is_plain: bool = True
    end: int = 0

    def says(self, *words: str) -> bool:
        return self.is_plain and self.text.lower() in words


def pieces_of(text: str) -> Iterator[str | GrantStatement]:
    """Split a text into GRANT and REVOKE statements, and what lies between them."""
    pending = 0
    for start, end in _statements(text):
        words = list(_words(text[start:end]))
        if not words or not words[0].says(*_VERBS):
            continue
        if text[pending:start].strip():
            yield text[pending:start]
        yield _Parser(words, text[start:end]).statement()
        pending = end
    if not pending or text[pending:].strip(" \n\t\r;"):
        yield text[pending:]


def _statements(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in _TOKEN.finditer(text):
        if found["sign"] == ";":
            yield start, found.end()
            start = found.end()
    if start < len(text):
        yield start, len(text)


def _words(text: str) -> Iterator[_Word]:
    for found in _TOKEN.finditer(text):
        if found["text"] is not None:
            yield _Word(found["text"].replace("''", "'"), is_plain=False, end=found.end())
        elif found["name"] is not None:
            yield _Word(found["name"].replace('""', '"'), is_plain=False, end=found.end())
        elif found["skip"] is None and found["sign"] != ";":
            yield _Word(found.group(), end=found.end())


class _Parser:
    """Read the words of one statement from left to right."""

    def __init__(self, words: list[_Word], text: str) -> None:
        self._words = words
        self._text = text
        self._at = 0

    def statement(self) -> GrantStatement:
        """Read the whole statement."""
        is_grant = self._next().says("grant")
        operations, columns = self._operations()
        resource = self._resource()
        self._expect("to" if is_grant else "from")
        principals = [self._principal()]
        while self._took(","):
            principals.append(self._principal())
        host = self._next().text if self._took("at") else None
        where = self._where()
        if self._at < len(self._words):
            raise self._misread()
        if not is_grant and (columns or where):
            raise RequestError(
                "READ is revoked as a whole, with its columns and rows.",
                hint="Leave columns and WHERE out; grant READ with others to change them.",
            )
        return GrantStatement(
            is_grant, operations, resource, tuple(principals), host, columns, where
        )

    def _where(self) -> str:
        if not self._took("where"):
            return ""
        start = self._words[self._at - 1].end
        self._at = len(self._words)
        found = self._text[start:].strip().rstrip(";").strip()
        if not found:
            raise self._misread()
        return found

    def _columns(self) -> tuple[str, ...]:
        if not self._took("("):
            return ()
        found = [self._next().text]
        while self._took(","):
            found.append(self._next().text)
        self._expect(")")
        return tuple(found)

    def _operations(self) -> tuple[tuple[acl.Operation, ...], tuple[str, ...]]:
        found: list[acl.Operation] = []
        columns: tuple[str, ...] = ()
        while True:
            word = self._next().text
            if instead := _OTHER_WORDS.get(word.upper()):
                raise RequestError(f"There is no operation {word}.", hint=f"Use {instead}.")
            found.append(acl.parse_operation(word))
            self._took("privileges")
            columns = columns or self._columns()
            if not self._took(","):
                self._expect("on")
                return tuple(found), columns

    def _resource(self) -> str:
        if self._took("cluster"):
            return "cluster"
        if self._took("database", "schema"):
            return f"database:{self._next().text}"
        self._took("table")
        name = self._next().text
        if name == "*":
            return "table:*"
        if not self._took("."):
            raise RequestError(
                f"{name!r} does not say which database it is in.",
                hint=f"Write DATABASE {name}, or DATABASE_NAME.{name} for a table.",
            )
        return f"table:{name}.{self._next().text}"

    def _principal(self) -> acl.Principal:
        if self._took("public"):
            return acl.EVERYBODY
        if self._took("user"):
            return acl.Principal(acl.USER, self._next().text)
        if self._took("group"):
            return acl.Principal(acl.GROUP, self._next().text)
        word = self._next()
        if ":" in word.text or word.text == "*":
            return acl.parse_principal(word.text)
        return acl.Principal(acl.USER, word.text)

    def _next(self) -> _Word:
        if self._at >= len(self._words):
            raise self._misread()
        self._at += 1
        return self._words[self._at - 1]

    def _took(self, *words: str) -> bool:
        if self._at < len(self._words) and self._words[self._at].says(*words):
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._took(word):
            raise self._misread()

    def _misread(self) -> RequestError:
        rest = self._words[self._at].text if self._at < len(self._words) else "the end"
        return RequestError(f"The statement cannot be read at {rest[:80]!r}.", hint=_FORM)
