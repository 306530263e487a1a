"""One option: its name, kind, default and meaning, declared as a value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.config.values import Kind
from headwater.errors import InvalidOptionError

SHOWN_CHARACTERS_MAX = 80

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[T_co]):
    """Declare an option; the default is text, read like a value that a user gives."""

    name: str
    kind: Kind[T_co]
    description: str
    default: str | None = None
    alterable: bool = False

    def of(self, properties: Mapping[str, str]) -> T_co | None:
        """Return the value given, else the default, else None."""
        text = properties.get(self.name, self.default)
        return None if text is None else self.read(text)

    def required(self, properties: Mapping[str, str]) -> T_co:
        """Return the value given or the default, for an option that has one."""
        value = self.of(properties)
        assert value is not None, self.name
        return value

    def read(self, text: str) -> T_co:
        """Read a value, or say what is expected instead."""
        value = self.kind.read(text)
        if value is None:
            raise InvalidOptionError(
                f"'{self.name}' cannot be {shown(text)}.", hint=f"Expected {self.kind.expected}."
            )
        return value


def shown(text: str) -> str:
    """Return foreign text in quotes, cut to a length that suits a message."""
    return repr(text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…")
