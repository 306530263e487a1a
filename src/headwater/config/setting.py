"""How a setting is declared: its default and what it means, and a check of its value."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, field, fields
from typing import TYPE_CHECKING

from headwater.errors import InvalidOptionError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def integer(default: int, description: str) -> int:
    """Declare a whole number."""
    setting: int = field(default=default, metadata={"description": description})
    return setting


def integer_or_none(description: str) -> int | None:
    """Declare a whole number that is not set by default."""
    setting: int | None = field(default=None, metadata={"description": description})
    return setting


def seconds(default: float, description: str) -> float:
    """Declare a length of time."""
    setting: float = field(default=default, metadata={"description": description})
    return setting


def switch(description: str, *, default: bool = False) -> bool:
    """Declare something that is on or off."""
    setting: bool = field(default=default, metadata={"description": description})
    return setting


def text(default: str, description: str) -> str:
    """Declare a text."""
    setting: str = field(default=default, metadata={"description": description})
    return setting


def properties(description: str) -> Mapping[str, str]:
    """Declare names with values, none by default."""
    setting: Mapping[str, str] = field(default_factory=dict, metadata={"description": description})
    return setting


def described(settings: "type[DataclassInstance]") -> Iterator[tuple[str, str, str]]:
    """Yield name, default and description of each setting, for the reference page."""
    for setting in fields(settings):
        default = "" if setting.default in (MISSING, None) else str(setting.default)
        yield setting.name, default, setting.metadata["description"]


def check_positive(settings: "DataclassInstance", *, free: Collection[str]) -> None:
    """Refuse a value that is not above 0, except in settings that are free of that."""
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if setting.name not in free and not value > 0:
            raise InvalidOptionError(f"'{setting.name}' must be above 0, not {value}.")
