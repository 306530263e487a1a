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


def items(array: JavaObject) -> list[JavaObject]:
    """Return what is in an array; iterating over it would ask the JVM once more."""
    return [array[place] for place in range(len(array))]


def read_predicate(java: JavaObject) -> Call | None:
    """Return a condition of the JVM, or None if something in it is of no kind known here."""
    children = java.children()
    if len(children) > CHILDREN_MAX:
        return None
    read: list[Expression] = []
    for child in items(children):
        expression = _read(child)
        if expression is None:
            return None
        read.append(expression)
    return Call(java.name(), tuple(read))


def _read(java: JavaObject) -> Expression | None:
    match java.getClass().getSimpleName():
        case "FieldReference":
            return Reference(tuple(items(java.fieldNames())))
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
