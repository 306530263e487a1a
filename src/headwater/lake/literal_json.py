"""The JSON form of literals: what JSON tells apart stands as it is, the rest under its type."""

from base64 import b64decode, b64encode
from decimal import Decimal, InvalidOperation

from headwater.model.predicate import Literal
from headwater.model.type_json import Json


def literal_to_json(value: Literal) -> Json:
    """Write a literal; floats as hexadecimal text, which holds every one of them exactly."""
    match value:
        case float():
            return {"float": value.hex()}
        case bytes():
            return {"bytes": b64encode(value).decode()}
        case Decimal():
            return {"decimal": str(value)}
        case _:
            return value


def literal_from_json(node: Json) -> Literal:
    """Read a literal, or raise `ValueError`."""
    match node:
        case bool() | int() | str() | None:
            return node
        case {"float": str(text)}:
            return _float(text)
        case {"bytes": str(text)}:
            return b64decode(text, validate=True)
        case {"decimal": str(text)}:
            return _decimal(text)
        case _:
            raise ValueError(f"{node} is no literal")


def _float(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        raise ValueError(f"{text} is no float") from None


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text} is no decimal") from None
    # No bound: it compares with nothing, and of one kind the comparison itself fails.
    if value.is_nan():
        raise ValueError(f"{text} is no decimal")
    return value
