"""Expressions of Spark as plain values: columns, literals, and calls upon them."""

from dataclasses import dataclass
from typing import TypeAlias

from py4j.java_gateway import JavaObject

# More would take longer to fetch than Spark takes to test all rows.
CHILDREN_MAX = 256


@dataclass(frozen=True, slots=True)
class Reference:
    """Name a column, or a field within one."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """Hold a value as Spark holds it within: days and microseconds as numbers, the rest as text."""

    value: object


@dataclass(frozen=True, slots=True)
class Call:
    """Apply a function or an operator."""

    name: str
    children: tuple["Expression", ...]


Expression: TypeAlias = Reference | Literal | Call


def read_predicate(java: JavaObject) -> Call | None:
    """Return a condition of the JVM, or None if something in it is of no kind known here."""
    children = java.children()
    count = len(children)
    if count > CHILDREN_MAX:
        return None
    read: list[Expression] = []
    for place in range(count):
        # By place, since an iterator asks once more than there are.
        child = _read(children[place])
        if child is None:
            return None
        read.append(child)
    return Call(java.name(), tuple(read))


def _read(java: JavaObject) -> Expression | None:
    match java.getClass().getSimpleName():
        case "FieldReference":
            return Reference(tuple(java.fieldNames()))
        case "LiteralValue":
            return Literal(plain_value(java.value()))
        case "Predicate" | "And" | "Or" | "Not":
            return read_predicate(java)
        case _:
            return None


def plain_value(value: object) -> object:
    """Return a value that came from the JVM, as text where Python has no type for it."""
    to_string = getattr(value, "toString", None)
    return value if to_string is None else to_string()
