"""Functions that Spark names otherwise than Flink, in one table; all others pass through.

`docs/reference/sql-functions.md` is generated from it. A rule is Spark's expression with `_0`, `_1`
and so on in the place of the arguments, or just a name if the arguments stay as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from headwater.pipelines.sql.dialect import parse_expression_tokens, tokenize


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """A function of Flink, and how it is said in Spark."""

    name: str
    arguments: int | None
    """How many the rule is for; None for any number."""
    spark: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class RefusedFunction:
    """A function that has no equal in Spark, and what to write instead."""

    name: str
    hint: str


_R = FunctionRule
RULES = (
    # Time.
    _R("PROCTIME", 0, "CURRENT_TIMESTAMP()", "the time at which a micro-batch is planned"),
    _R("CURRENT_ROW_TIMESTAMP", 0, "CURRENT_TIMESTAMP()", "the same for all rows of a batch"),
    _R("LOCALTIMESTAMP", 0, "LOCALTIMESTAMP()", "also without parentheses"),
    _R("LOCALTIME", 0, "CURRENT_TIME()", "also without parentheses"),
    _R("CURRENT_TIME", 0, "CURRENT_TIME()", "also without parentheses"),
    _R("TO_TIMESTAMP", 1, "TO_TIMESTAMP_NTZ(_0)", "a wall-clock time without a zone"),
    _R("TO_TIMESTAMP", 2, "TO_TIMESTAMP_NTZ(_0, _1)"),
    _R("TO_TIMESTAMP_LTZ", 1, "TIMESTAMP_MILLIS(_0)", "an instant from milliseconds"),
    _R(
        "TO_TIMESTAMP_LTZ",
        2,
        "TIMESTAMP_MILLIS(_0)",
        "precision 3; TIMESTAMP_SECONDS for 0, TO_TIMESTAMP(_0, _1) for a text and its format",
    ),
    _R(
        "CONVERT_TZ",
        3,
        "DATE_FORMAT(FROM_UTC_TIMESTAMP(TO_UTC_TIMESTAMP(_0, _1), _2), 'yyyy-MM-dd HH:mm:ss')",
    ),
    _R("WEEK", 1, "WEEKOFYEAR(_0)"),
    _R("FLOOR_TO", 2, "DATE_TRUNC(_0, _1)", "`FLOOR(time TO HOUR)`"),
    # Text.
    _R(
        "SPLIT_INDEX",
        3,
        "TRY_ELEMENT_AT(SPLIT(_0, CONCAT('\\Q', _1, '\\E')), _2 + 1)",
        "null beyond the last part",
    ),
    _R("REGEXP", 2, "RLIKE(_0, _1)"),
    _R(
        "REGEXP_EXTRACT",
        2,
        "CASE WHEN RLIKE(_0, _1) THEN REGEXP_EXTRACT(_0, _1, 0) END",
        "the whole match; null without one",
    ),
    _R(
        "REGEXP_EXTRACT",
        3,
        "CASE WHEN RLIKE(_0, _1) THEN REGEXP_EXTRACT(_0, _1, _2) END",
        "null without a match",
    ),
    _R("IS_ALPHA", 1, "RLIKE(_0, '^[A-Za-z]+$')"),
    _R("IS_DIGIT", 1, "RLIKE(_0, '^[0-9]+$')"),
    _R("IS_DECIMAL", 1, "(TRY_CAST(_0 AS DOUBLE) IS NOT NULL)"),
    _R("FROM_BASE64", 1, "CAST(UNBASE64(_0) AS STRING)"),
    _R("TO_BASE64", 1, "BASE64(_0)"),
    _R("SHA224", 1, "SHA2(_0, 224)"),
    _R("SHA256", 1, "SHA2(_0, 256)"),
    _R("SHA384", 1, "SHA2(_0, 384)"),
    _R("SHA512", 1, "SHA2(_0, 512)"),
    _R("JSON_VALUE", 2, "GET_JSON_OBJECT(_0, _1)", "text, unless RETURNING names a type"),
    _R("JSON_QUERY", 2, "GET_JSON_OBJECT(_0, _1)"),
    _R("JSON_EXISTS", 2, "(GET_JSON_OBJECT(_0, _1) IS NOT NULL)", "false for a JSON null"),
    _R("JSON_STRING", 1, "TO_JSON(_0)", "rows, arrays and maps"),
    # Numbers.
    _R("RAND_INTEGER", 1, "CAST(FLOOR(RAND() * _0) AS INT)"),
    _R("GREATEST", None, "CASE WHEN … THEN GREATEST(…) END", "null if any argument is null"),
    _R("LEAST", None, "CASE WHEN … THEN LEAST(…) END", "null if any argument is null"),
    # Collections.
    _R("ROW", None, "STRUCT"),
    _R("ARRAY_CONCAT", None, "CONCAT"),
    _R("ARRAY_REVERSE", 1, "REVERSE(_0)"),
    _R("ARRAY_SORT", 1, "SORT_ARRAY(_0)"),
    _R("ARRAY_SORT", 2, "SORT_ARRAY(_0, _1)"),
    _R("ARRAY_SLICE", 3, "SLICE(_0, _1, _2 - _1 + 1)", "from and to count from 1"),
    _R("MAP_UNION", None, "MAP_CONCAT", "a key that is in several maps is an error in Spark"),
    # Aggregates.
    _R("LISTAGG", 1, "ARRAY_JOIN(COLLECT_LIST(_0), ',')", "in no particular order"),
    _R("LISTAGG", 2, "ARRAY_JOIN(COLLECT_LIST(_0), _1)", "in no particular order"),
)
REFUSED = (
    RefusedFunction("CURRENT_WATERMARK", "Spark does not show its watermark to queries."),
    RefusedFunction("SOURCE_WATERMARK", "Declare WATERMARK FOR ts AS ts - INTERVAL '5' SECOND."),
    RefusedFunction("COLLECT", "Write COLLECT_LIST(x), an array; there are no multisets."),
    RefusedFunction("TRUNCATE", "Write SIGN(x) * FLOOR(ABS(x), n)."),
    RefusedFunction("HASH_CODE", "Write HASH(x) or XXHASH64(x); the numbers differ from Java's."),
    RefusedFunction("JSON_OBJECT", "Write TO_JSON(NAMED_STRUCT('key', value))."),
    RefusedFunction("JSON_ARRAY", "Write TO_JSON(ARRAY(…))."),
    RefusedFunction("CEIL_TO", "Write FLOOR(time TO unit) + INTERVAL '1' unit."),
)
# Names that are functions without parentheses in Flink, and columns to Spark's parser.
_BARE = {"LOCALTIMESTAMP": "LOCALTIMESTAMP", "LOCALTIME": "CURRENT_TIME"}
_RULES: Mapping[tuple[str, int | None], FunctionRule] = {
    (rule.name, rule.arguments): rule for rule in RULES
}
REFUSED_HINTS: Mapping[str, str] = {each.name: each.hint for each in REFUSED}
_NAMES = frozenset(rule.name for rule in RULES)


def spark_functions(tree: exp.Expr) -> exp.Expr:
    """Replace Flink's functions in a tree by Spark's; the tree is changed, or another returned.

    What was already written in Spark's words must not be passed through here again.
    """
    found = [
        node
        for node in tree.walk()
        if isinstance(node, exp.Anonymous | exp.Bracket | exp.Column | exp.CurrentTime)
    ]
    for node in reversed(found):  # inner ones first
        new = _replaced(node)
        if new is node:
            continue
        if node is tree:
            tree = new
        else:
            node.replace(new)
    return tree


def _replaced(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Anonymous():
            return _function(node)
        case exp.Bracket():
            return _element(node)
        case exp.CurrentTime():
            return exp.Anonymous(this="CURRENT_TIME")
        case exp.Column():
            name = node.name.upper()
            is_bare = name in _BARE and not node.table and not node.this.quoted
            return exp.Anonymous(this=_BARE[name]) if is_bare else node
        case _:
            return node


def _element(node: exp.Bracket) -> exp.Expr:
    """`array[1]` and `map['key']`, which count from 1 and give null for what is not there."""
    this = node.this
    if isinstance(this, exp.Column) and this.name.upper() == "MAP" and not this.table:
        return exp.Anonymous(this="MAP", expressions=node.expressions)
    # sqlglot shifts literal indexes to count from 0.
    parts = [this, *node.expressions]
    return exp.Anonymous(this="TRY_ELEMENT_AT", expressions=parts)


def _function(node: exp.Anonymous) -> exp.Expr:
    name = node.name.upper()
    if name not in _NAMES:
        return node
    arguments = node.expressions
    special = _SPECIAL.get(name)
    if special is not None:
        return special(node)
    rule = _RULES.get((name, len(arguments))) or _RULES.get((name, None))
    if rule is None:
        return node
    if "_0" not in rule.spark and "(" not in rule.spark:
        node.set("this", rule.spark)
        return node
    return _filled(rule.spark, arguments)


def _filled(template: str, arguments: list[exp.Expr]) -> exp.Expr:
    tree = _template(template).copy()
    for hole in list(tree.find_all(exp.Column)):
        name = hole.name
        if name.startswith("_") and name[1:].isdigit():
            hole.replace(_held(arguments[int(name[1:])]))
    return tree


def _held(argument: exp.Expr) -> exp.Expr:
    """Copy an argument, in parentheses if it could bind differently."""
    copy = argument.copy()
    return exp.Paren(this=copy) if isinstance(copy, exp.Binary | exp.Unary) else copy


@lru_cache(maxsize=256)
def _template(text: str) -> exp.Expr:
    return parse_expression_tokens(tokenize(text), text)


def _instant(node: exp.Anonymous) -> exp.Expr:
    arguments = node.expressions
    if len(arguments) == 1:
        return _filled("TIMESTAMP_MILLIS(_0)", arguments)
    second = arguments[1]
    if isinstance(second, exp.Literal) and second.is_string:
        return _filled("TO_TIMESTAMP(_0, _1)", arguments)
    name = "TIMESTAMP_SECONDS" if second.name == "0" else "TIMESTAMP_MILLIS"
    return _filled(f"{name}(_0)", arguments)


def _strict(node: exp.Anonymous) -> exp.Expr:
    """`GREATEST` and `LEAST`, which skip nulls in Spark and do not in Flink."""
    known = exp.and_(*(exp.Not(this=exp.Is(this=_held(each), expression=exp.Null()))
                       for each in node.expressions))  # fmt: skip
    call = exp.Anonymous(this=node.name.upper(), expressions=node.expressions)
    return exp.Case(ifs=[exp.If(this=known, true=call)])


def _list_text(node: exp.Anonymous) -> exp.Expr:
    first, *rest = node.expressions
    separator = rest[0] if rest else exp.Literal.string(",")
    is_distinct = isinstance(first, exp.Distinct)
    value = first.expressions[0] if is_distinct else first
    name = "COLLECT_SET" if is_distinct else "COLLECT_LIST"
    values = exp.Anonymous(this=name, expressions=[value])
    return exp.Anonymous(this="ARRAY_JOIN", expressions=[values, separator])


_SPECIAL: Mapping[str, Callable[[exp.Anonymous], exp.Expr]] = {
    "TO_TIMESTAMP_LTZ": _instant,
    "GREATEST": _strict,
    "LEAST": _strict,
    "LISTAGG": _list_text,
}

_AGGREGATES = """
ANY ANY_VALUE APPROX_COUNT_DISTINCT APPROX_PERCENTILE APPROX_TOP_K ARRAY_AGG AVG BIT_AND BIT_OR
BIT_XOR BITMAP_CONSTRUCT_AGG BITMAP_OR_AGG BOOL_AND BOOL_OR COLLECT_LIST COLLECT_SET CORR COUNT
COUNT_IF COUNT_MIN_SKETCH COVAR_POP COVAR_SAMP EVERY FIRST FIRST_VALUE HISTOGRAM_NUMERIC
HLL_SKETCH_AGG HLL_UNION_AGG KURTOSIS LAST LAST_VALUE LISTAGG MAX MAX_BY MEAN MEDIAN MIN MIN_BY MODE
PERCENTILE PERCENTILE_APPROX PERCENTILE_CONT PERCENTILE_DISC REGR_AVGX REGR_AVGY REGR_COUNT
REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY SKEWNESS SOME STD STDDEV STDDEV_POP
STDDEV_SAMP STRING_AGG SUM TRY_AVG TRY_SUM VAR_POP VAR_SAMP VARIANCE
"""
AGGREGATES = frozenset(_AGGREGATES.split())


def is_aggregate(node: exp.Expr) -> bool:
    """Tell whether a node is a call of an aggregate, as far as names tell."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in AGGREGATES
