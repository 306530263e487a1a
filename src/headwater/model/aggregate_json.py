"""The JSON form of a column's aggregate function."""

from collections.abc import Mapping

from headwater.errors import InvalidTableError
from headwater.model.aggregate import DELIMITER, AggregateFunction, AggregateKind
from headwater.model.type_json import Json, object_of, text_of, texts_of


def aggregate_of(name: str, parameters: Mapping[str, str]) -> AggregateFunction:
    """Return the function of a name with its parameters, or say what is wrong with them."""
    kind = AggregateKind.of(name)
    if unknown := sorted(parameters.keys() - {DELIMITER}):
        raise InvalidTableError(
            f"The aggregate function '{kind}' has no parameter '{unknown[0][:100]}'."
        )
    return AggregateFunction(kind, parameters.get(DELIMITER))


def aggregate_to_json(function: AggregateFunction) -> Json:
    """Write a function in the JSON form of the protocol."""
    json: dict[str, Json] = {"type": str(function.kind)}
    if function.delimiter is not None:
        json["parameters"] = {DELIMITER: function.delimiter}
    return json


def aggregate_from_json(json: Json) -> AggregateFunction | None:
    """Read a function from the JSON form of the protocol; a column may have none."""
    if json is None:
        return None
    node = object_of(json, what="agg_function")
    return aggregate_of(text_of(node, "type"), texts_of(node.get("parameters"), what="parameters"))
