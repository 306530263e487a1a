"""Expressions of Spark as plain values: columns, literals, and calls upon them."""

from collections.abc import Iterable
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


def read_expression(java: JavaObject) -> Expression | None:
    """Return an expression of the JVM, or None if it is of no kind known here."""
    match java.getClass().getSimpleName():
        case "FieldReference":
            return Reference(tuple(java.fieldNames()))
        case "LiteralValue":
            return Literal(plain_value(java.value()))
        case "Predicate" | "And" | "Or" | "Not":
            return _read_call(java)
        case _:
            return None


def _read_call(java: JavaObject) -> Call | None:
    children = java.children()
    if len(children) > CHILDREN_MAX:
        return None
    read = tuple(_known(map(read_expression, children)))
    return Call(java.name(), read) if len(read) == len(children) else None


def _known(expressions: Iterable[Expression | None]) -> Iterable[Expression]:
    return (each for each in expressions if each is not None)


def plain_value(value: object) -> object:
    """Return a value that came from the JVM, as text where Python has no type for it."""
    to_string = getattr(value, "toString", None)
    return value if to_string is None else to_string()
