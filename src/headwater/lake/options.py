"""Which table options reach a lake format, and where its files may lie.

Anyone who may create a table writes its options, and anyone who may write to the lake writes the
properties of a lake table. The libraries behind the formats obey both: an option can name a Python
class to import, an address to send credentials to, or a folder to write into. So an option reaches
a library only if its format declares it here, code is named only by the options of the process
itself, and files are read, written and deleted only below places that its operator allowed.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from os.path import realpath
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from headwater.errors import InvalidOptionError, LakeNotAllowedError

ALLOWED_LOCATIONS = "headwater.allowed-locations"
"""The lake option by which an operator allows more places: URLs or paths, comma-separated."""
_LOCAL = "file"
_SCHEMES = {"": _LOCAL, "s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs", "gcs": "gs"}
_CODE = re.compile(r"(^|[.-])impl$|(^|\.)(class|factory|callbacks?)(\.|$)|^auth(\.|$)")
_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedOptions:
    """The table options that are passed to one format."""

    format: str
    names: Collection[str]
    prefixes: tuple[str, ...] = ()
    """Options that start with one of these are allowed too, unless they name code."""

    def allows(self, name: str) -> bool:
        """Tell whether an option, without its format prefix, is passed on."""
        if name in self.names:
            return True
        return name.startswith(self.prefixes) and not names_code(name)

    def check(self, names: Iterable[str]) -> None:
        """Raise for the first option that is not declared."""
        for name in sorted(names):
            if not self.allows(name):
                raise InvalidOptionError(
                    f"The option {f'{self.format}.{name}'[:_SHOWN_MAX]!r} is not allowed "
                    f"for the lake format {self.format}.",
                    hint=(
                        "Remove it: headwater table alter … --reset "
                        f"{self.format}.{name}. Allowed are {self.shown}. Operators set "
                        "where a lake is and how it is reached: headwater serve --lake, "
                        "headwater tier --lake."
                    ),
                )

    @property
    def shown(self) -> str:
        """The allowed options, for error texts."""
        every = [*sorted(self.names), *(f"{each}*" for each in self.prefixes)]
        return ", ".join(f"{self.format}.{each}" for each in every)


def names_code(name: str) -> bool:
    """Tell whether an option's value is a class or function that a library imports."""
    return _CODE.search(name.lower()) is not None


@dataclass(frozen=True, slots=True)
class AllowedPlaces:
    """The locations below which files of lake tables may lie."""

    roots: tuple[str, ...]

    @classmethod
    def of(cls, config: Mapping[str, str], *, location: str = "") -> "AllowedPlaces":
        """The places that the options of a lake allow.

        That is its warehouse. If the warehouse is only a name in a catalog, it is what that catalog
        says: the location of the table.
        """
        warehouse = config.get("warehouse", "")
        own = warehouse if _is_location(warehouse) else location
        more = config.get(ALLOWED_LOCATIONS, "").split(",")
        return cls(tuple(each for each in (own, *map(str.strip, more)) if each))

    def allow(self, location: str) -> bool:
        """Tell whether a file or folder may be used."""
        return any(_is_within(location, root) for root in self.roots)

    def check(self, location: str, *, what: str) -> None:
        """Raise for a location that lies elsewhere."""
        if not self.allow(location):
            fault = LakeNotAllowedError(
                f"{what} points to {location[:_SHOWN_MAX]!r}, which is not below "
                f"{' or '.join(self.roots) or 'any allowed place'}.",
                hint=(
                    "If that is intended, allow the place in this process with the lake "
                    f"option {ALLOWED_LOCATIONS} (--lake {ALLOWED_LOCATIONS}=…). If not, "
                    "somebody changed the lake table: restore it, or drop it with "
                    "headwater lake drop."
                ),
            )
            fault.location = location
            raise fault


def without_own(config: Mapping[str, str]) -> dict[str, str]:
    """The options of a lake that are meant for its library."""
    return {name: value for name, value in config.items() if name != ALLOWED_LOCATIONS}


def _is_location(text: str) -> bool:
    return "://" in text or text.startswith(("/", "./", "file:"))


def _is_within(location: str, root: str) -> bool:
    """Compare locations, percent-encoded or not, since libraries differ in that."""
    if "\0" in location or "\\" in location:
        return False
    wanted = _spelled(root)
    if _spelled(location) == wanted:
        return True
    spellings = [_spelled(each) for each in {location, unquote(location)}]
    return all(_is_below(each, wanted) for each in spellings) and (
        wanted[0] != _LOCAL or all(_is_really_below(each[1], wanted[1]) for each in spellings)
    )


def _is_really_below(path: str, root: str) -> bool:
    """Compare where two local paths lead, since a link may lead elsewhere."""
    return _is_below((_LOCAL, realpath(path)), (_LOCAL, realpath(root)))


def _is_below(found: tuple[str, str], wanted: tuple[str, str]) -> bool:
    return found[0] == wanted[0] and f"{found[1]}/".startswith(f"{wanted[1].rstrip('/')}/")


def _spelled(location: str) -> tuple[str, str]:
    try:
        parts = urlsplit(location)
    except ValueError:
        return "", location
    if "://" not in location and parts.scheme != "file":
        # A local path, which may contain a colon or a question mark.
        return _LOCAL, normpath(location)
    rest = location.partition(":")[2].removeprefix("//")
    host, slash, path = rest.partition("/")
    scheme = parts.scheme.lower()
    return _SCHEMES.get(scheme, scheme), normpath(f"{host}{slash}{path}") if host else normpath(
        f"/{path.lstrip('/')}"
    )
