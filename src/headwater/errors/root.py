"""The root of all errors: what each of them carries."""

import re
from collections.abc import Mapping
from typing import ClassVar

HIDDEN = "***"
# Who logs in with an address, and what stands in its query under the name of a secret.
_USER_INFO = re.compile(r"(?<=://)[^/?#\s'\"@]+(?=@)")
_SECRET_VALUE = re.compile(
    r"([?&][^=&\s]*(?:password|secret|token|credential|signature|key)[^=&\s]*=)[^&\s'\")]+",
    re.IGNORECASE,
)


class HeadwaterError(Exception):
    """Be the root of all errors raised on purpose.

    The text of an error is its message, and the hint that it was raised with, if any. The
    attribute `hint` falls back to the advice of the class; that is not part of the text, so
    that it is not sent over the wire, where the other side has advice of its own. A traceback
    shows it as a note.
    """

    code: int = -1
    retriable: ClassVar[bool] = False
    hint: str = "Read the message; this version of Headwater does not know the code."
    rows_written: int | None = None
    """Of a write that failed: rows that are written all the same, if that is known."""
    rows_unknown: int = 0
    """Of a write that failed: rows of which nobody knows whether they are written."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        # What libraries and databases say may quote an address with all that was in it.
        message = redacted(message)
        super().__init__(f"{message} {hint}".rstrip())
        self.message = message
        if hint:
            self.hint = hint
        else:
            self.add_note(f"Hint: {self.hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), str(self), self.__dict__)


def redacted(text: str) -> str:
    """Return a text without the passwords and tokens of the addresses in it."""
    if "://" not in text:
        return text
    return _SECRET_VALUE.sub(rf"\1{HIDDEN}", _USER_INFO.sub(HIDDEN, text))


def _restored(
    kind: type[HeadwaterError], text: str, fields: Mapping[str, object]
) -> HeadwaterError:
    """Return a copy from another process; `__init__` of a subclass may want more than text."""
    fault = kind.__new__(kind, text)
    fault.__dict__.update(fields)
    return fault
