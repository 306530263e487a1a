"""YAML that knows its places: values with their line and column, and all faults of a file at once.

The keys of a mapping are declared beforehand. One that is not declared, or is written twice, is a
fault that names the nearest declared key; reading goes on, so that one run tells everything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import yaml

from headwater.errors import HeadwaterError, StatementError
from headwater.pipelines.sql.faults import fault, meant
from headwater.pipelines.sql.statements import SourceText

FAULTS_MAX = 20
"""Faults that are told at once."""

Choice = TypeVar("Choice", bound=StrEnum)
T = TypeVar("T")


@dataclass(slots=True)
class FormFaults:
    """The faults of a text, in the order in which they are found."""

    source: SourceText
    found: list[StatementError] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> "FormFaults":
        """Begin without faults."""
        return cls(SourceText(text, 1, 1, text))

    def add(self, message: str, *, at: int, hint: str = "") -> None:
        """Note a fault at a character of the text."""
        self.found.append(fault(self.source, message, hint=hint, at=at))

    def check(self) -> None:
        """Raise all faults as one error, if there are any."""
        if not self.found:
            return
        ordered = sorted(self.found, key=lambda each: (each.line, each.column))
        shown = "\n\n".join(str(each) for each in ordered[:FAULTS_MAX])
        more = len(ordered) - FAULTS_MAX
        whole = StatementError(shown + (f"\n\n… and {more} more." if more > 0 else ""))
        whole.line, whole.column = ordered[0].line, ordered[0].column
        raise whole


def root_of(text: str, faults: FormFaults) -> "Section":
    """Parse a text into its outermost mapping."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        at = 0 if mark is None else mark.index
        faults.add(f"This is not YAML: {broken.problem}.", at=at)
        faults.check()
        raise
    if not isinstance(node, yaml.MappingNode):
        faults.add("A pipeline is a mapping with the keys source, sink and pipeline.", at=0)
        faults.check()
    assert isinstance(node, yaml.MappingNode)
    return Section("the pipeline", node, faults)


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A single value as it was written, and where."""

    value: str
    at: int


class Section:
    """A mapping of the file; each key is asked for once, and what is left over is a fault."""

    def __init__(self, name: str, node: yaml.MappingNode, faults: FormFaults) -> None:
        self.name = name
        self.at: int = node.start_mark.index
        self._faults = faults
        self._nodes: dict[str, tuple[int, yaml.Node]] = {}
        self._known: list[str] = []
        for key, value in node.value:
            self._put(key, value)

    def _put(self, key: yaml.Node, value: yaml.Node) -> None:
        at = key.start_mark.index
        if not isinstance(key, yaml.ScalarNode):
            self._faults.add("A key is a single word.", at=at)
        elif key.value in self._nodes:
            self._faults.add(f"'{key.value}' is given twice.", at=at, hint="Keep one of them.")
        else:
            self._nodes[key.value] = at, value

    # ---- single values

    def text(self, key: str) -> PlacedText | None:
        """A single value, or None if it is not given."""
        found = self._take(key)
        if found is None:
            return None
        at, node = found
        if not isinstance(node, yaml.ScalarNode):
            self.fault(f"'{key}' is a single value.", at=node.start_mark.index)
            return None
        if not node.value or node.tag.endswith(":null"):
            self.fault(f"'{key}' has no value.", at=at)
            return None
        return PlacedText(node.value, node.start_mark.index)

    def required(self, key: str) -> PlacedText:
        """A single value that has to be given."""
        missing = key not in self._nodes
        found = self.text(key)
        if missing:
            near = meant(key, [each for each in self._nodes if each not in self._known])
            self.fault(f"{self.name} needs '{key}'.", at=self.at, hint=near)
        return found or PlacedText("", self.at)

    def whole(self, key: str, default: int, *, low: int, high: int) -> int:
        """A whole number within bounds."""
        found = self.text(key)
        if found is None:
            return default
        if not found.value.isdecimal() or not low <= int(found.value) <= high:
            said = f"'{key}' is a whole number from {low} to {high}, not '{found.value}'."
            self.fault(said, at=found.at)
            return default
        return int(found.value)

    def choice(self, key: str, default: Choice) -> Choice:
        """One of some words."""
        found = self.text(key)
        if found is None:
            return default
        return choice_of(found, type(default), self, what=key) or default

    def parsed(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """A single value that a function parses; what it raises is the fault."""
        found = self.text(key)
        return default if found is None else self.parse(found, parse, default)

    def parse(self, text: PlacedText, parse: Callable[[str], T], default: T) -> T:
        """Parse a value that was read; what the function raises is the fault."""
        try:
            return parse(text.value)
        except HeadwaterError as broken:
            self.fault(str(broken), at=text.at)
            return default

    # ---- values with several parts

    def texts(self, key: str) -> tuple[PlacedText, ...]:
        """Several values: a list, or one line with commas."""
        found = self._take(key)
        if found is None:
            return ()
        _, node = found
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._item(each, key) for each in node.value)
        if not isinstance(node, yaml.ScalarNode):
            self.fault(f"'{key}' is a list.", at=node.start_mark.index)
            return ()
        return tuple(_cut(node.value, ",", node.start_mark.index))

    def _item(self, node: yaml.Node, key: str) -> PlacedText:
        if not isinstance(node, yaml.ScalarNode):
            self.fault(f"'{key}' is a list of single values.", at=node.start_mark.index)
            return PlacedText("", node.start_mark.index)
        return PlacedText(node.value, node.start_mark.index)

    def section(self, key: str) -> "Section | None":
        """A mapping, or None if it is not given."""
        found = self._take(key)
        if found is None:
            return None
        return self._section(key, found[1])

    def _section(self, name: str, node: yaml.Node) -> "Section | None":
        if isinstance(node, yaml.MappingNode):
            return Section(f"'{name}'", node, self._faults)
        self.fault(f"'{name}' is a mapping: keys with values.", at=node.start_mark.index)
        return None

    def sections(self, key: str) -> list["Section"]:
        """A list of mappings; empty if it is not given."""
        found = self._take(key)
        if found is None:
            return []
        if not isinstance(found[1], yaml.SequenceNode):
            said = f"'{key}' is a list: begin each rule with a dash."
            self.fault(said, at=found[1].start_mark.index)
            return []
        made = (self._section(key, each) for each in found[1].value)
        return [each for each in made if each is not None]

    def pairs(self, key: str) -> dict[str, PlacedText]:
        """Values by name: a mapping, or a line such as `a.b:4;c.d:2`; a name may be left out."""
        found = self._take(key)
        if found is None:
            return {}
        node = found[1]
        if isinstance(node, yaml.ScalarNode):
            return dict(_pairs(node))
        if isinstance(node, yaml.MappingNode):
            return {
                name.value: PlacedText(value.value, value.start_mark.index)
                for name, value in node.value
                if isinstance(value, yaml.ScalarNode)
            }
        self.fault(f"'{key}' is one value, or names with values.", at=node.start_mark.index)
        return {}

    def prefixed(self, prefix: str) -> dict[str, PlacedText]:
        """All single values whose key begins so, under the rest of the key."""
        wanted = [key for key in self._nodes if key.startswith(prefix) and key != prefix]
        found = {key.removeprefix(prefix): self.text(key) for key in wanted}
        return {key: text for key, text in found.items() if text is not None}

    # ---- faults

    def fault(self, message: str, *, at: int, hint: str = "") -> None:
        """Note a fault."""
        self._faults.add(message, at=at, hint=hint)

    def refuse(self, key: str, why: str) -> None:
        """Tell of a key that is known elsewhere and not supported here."""
        found = self._take(key)
        if found is not None:
            self.fault(f"'{key}' is not supported: {why}.", at=found[0], hint="Leave it out.")

    def finish(self) -> None:
        """Tell of all keys that nobody asked for."""
        for key, (at, _) in self._nodes.items():
            if key not in self._known:
                known = ", ".join(sorted(set(self._known)))
                hint = meant(key, self._known) or f"It has {known}."
                self.fault(f"{self.name} has no key '{key}'.", at=at, hint=hint)

    def _take(self, key: str) -> tuple[int, yaml.Node] | None:
        self._known.append(key)
        return self._nodes.get(key)


def choice_of(
    text: PlacedText, kind: type[Choice], section: Section, *, what: str
) -> Choice | None:
    """One of some words; another one is a fault that names the nearest."""
    known = [each.value for each in kind]
    if text.value.lower() in known:
        return kind(text.value.lower())
    hint = f"{meant(text.value, known)} It is {', '.join(known[:-1])} or {known[-1]}.".strip()
    section.fault(f"'{what}' cannot be '{text.value}'.", at=text.at, hint=hint)
    return None


def _cut(text: str, mark: str, at: int) -> Iterator[PlacedText]:
    for part in text.split(mark):
        if part.strip():
            yield PlacedText(part.strip(), at + len(part) - len(part.lstrip()))
        at += len(part) + len(mark)


def _pairs(node: yaml.ScalarNode) -> Iterator[tuple[str, PlacedText]]:
    for part in _cut(node.value, ";", node.start_mark.index):
        name, colon, value = part.value.rpartition(":")
        yield name.strip(), PlacedText(value.strip(), part.at + len(name) + len(colon))


def values_of(texts: Sequence[PlacedText]) -> tuple[str, ...]:
    """The values without their places."""
    return tuple(each.value for each in texts)
