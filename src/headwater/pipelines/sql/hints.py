"""Hints: `/*+ OPTIONS('key' = 'value') */` after a table, and those after SELECT."""

from sqlglot.tokenizer_core import Token, TokenType

from headwater.errors import StatementError
from headwater.pipelines.sql.dialect import tokenize
from headwater.pipelines.sql.faults import fault, meant
from headwater.pipelines.sql.statements import SourceText

_START, _END = "/*+", "*/"
# Hints after SELECT that Spark understands; they pass through.
SPARK_HINTS = (
    "BROADCAST",
    "BROADCASTJOIN",
    "MAPJOIN",
    "MERGE",
    "SHUFFLE_MERGE",
    "MERGEJOIN",
    "SHUFFLE_HASH",
    "SHUFFLE_REPLICATE_NL",
    "COALESCE",
    "REPARTITION",
    "REPARTITION_BY_RANGE",
    "REBALANCE",
)
_REFUSED_HINTS = {
    "LOOKUP": "Lookups are made for a whole batch of rows at once; remove the hint. A cache is an"
    " option of the table: OPTIONS('lookup.cache.max-rows' = '10000').",
    "STATE_TTL": "State is kept as long as the watermark says; remove the hint, and declare a"
    " WATERMARK to bound it.",
    "NEST_LOOP": "Write SHUFFLE_REPLICATE_NL.",
    "MULTI_JOIN": "Spark orders joins by itself; remove the hint.",
    "OPTIONS": "OPTIONS(…) goes after the name of a table, not after SELECT.",
}


def option_hints(text: str, source: SourceText) -> dict[str, str]:
    """Read the options of a hint after a table's name."""
    tokens = tokenize(text.removeprefix(_START).removesuffix(_END))
    if not tokens or tokens[0].text.upper() != "OPTIONS":
        name = tokens[0].text if tokens else ""
        raise fault(
            source,
            f"The hint {name} does not go after a table.",
            hint="Write /*+ OPTIONS('key' = 'value') */.",
        )
    return _pairs(tokens[1:], source)


def _pairs(tokens: list[Token], source: SourceText) -> dict[str, str]:
    """Read `('key' = 'value', …)`; a key may also be bare, with dots and hyphens in it."""
    found: dict[str, str] = {}
    if len(tokens) < 2 or tokens[0].text != "(" or tokens[-1].text != ")":  # noqa: PLR2004
        raise _malformed(source)
    part: list[Token] = []
    for token in (*tokens[1:-1], Token(TokenType.COMMA, ",")):
        if token.token_type != TokenType.COMMA:
            part.append(token)
            continue
        texts = [each.text for each in part]
        if "=" not in texts or part[-1].token_type != TokenType.STRING or texts[-2] != "=":
            raise _malformed(source)
        found["".join(texts[:-2])] = texts[-1]
        part = []
    return found


def _malformed(source: SourceText) -> StatementError:
    return fault(
        source,
        "The hint cannot be parsed.",
        hint="Write /*+ OPTIONS('key' = 'value', 'key' = 'value') */.",
    )


def check_query_hint(text: str, source: SourceText) -> None:
    """Raise for a hint after SELECT that nobody follows."""
    tokens = tokenize(text.removeprefix(_START).removesuffix(_END))
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        name = token.text.upper()
        if depth or not name[0].isalpha() or name in SPARK_HINTS:
            continue
        raise fault(
            source,
            f"The hint {name} is not supported.",
            hint=_REFUSED_HINTS.get(name) or meant(name, SPARK_HINTS) or "Remove it.",
        )
