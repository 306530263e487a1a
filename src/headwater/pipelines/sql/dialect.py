"""Flink SQL for sqlglot: tokens and queries as Flink writes them, out as Spark SQL.

Functions are kept as they are written, without sqlglot's idea of what they mean: what Spark names
otherwise is in `functions`, and everything else that Spark has passes through. Statements that are
not queries are read by `parse`.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from headwater.errors import InvalidTableError
from headwater.pipelines.sql.types import characters, flink_type, spark_type

WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR")


class WindowTable(exp.Expression):
    """`TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL …)`: rows with the windows they are in."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "table": True,
        "time": True,
        "partition": False,
        "expressions": True,
    }


class TableHints(exp.Expression):
    """`/*+ OPTIONS('key' = 'value') */` after a table's name."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class FlinkSyntaxError(ParseError):
    """What sqlglot could not parse, and the token at which it stopped."""

    def __init__(self, message: str, start: int, *, hint: str = "") -> None:
        # sqlglot looks into the errors of those that it catches on its way back.
        super().__init__(message, [{"description": message, "into_expression": None}])
        self.start = start
        self.advice = hint


# What has a syntax of its own that Spark lacks, and what to write.
_OWN_FORMS: Mapping[str, str] = {
    "MATCH_RECOGNIZE": "Spark has no pattern matching over rows: write LAG and LEAD in a batch.",
    "JSON_OBJECTAGG": "Write TO_JSON(MAP_FROM_ENTRIES(COLLECT_LIST(STRUCT(key, value)))).",
    "JSON_ARRAYAGG": "Write TO_JSON(COLLECT_LIST(value)).",
    "JSON_OBJECT": "Write TO_JSON(NAMED_STRUCT('key', value)).",
    "JSON_ARRAY": "Write TO_JSON(ARRAY(value, value)).",
    "JSON_EXISTS": "Write GET_JSON_OBJECT(text, path) IS NOT NULL.",
    "JSON_QUERY": "Write GET_JSON_OBJECT(text, path).",
    "JSON_VALUE": "Write JSON_VALUE(text, path), and CAST what it gives.",
}


class FlinkTokenizer(Tokenizer):
    """Text in single quotes, names in backticks, and hints as tokens of their own."""

    QUOTES: ClassVar = ["'"]
    IDENTIFIERS: ClassVar = ["`"]
    IDENTIFIER_ESCAPES: ClassVar = ["`"]
    STRING_ESCAPES: ClassVar = ["'"]
    HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
    COMMANDS: ClassVar = set()
    TOKENS_PRECEDING_HINT: ClassVar = set(TokenType)


class FlinkParser(Parser):
    """Queries and expressions."""

    STRICT_CAST = True
    FUNC_TOKENS: ClassVar = {*Parser.FUNC_TOKENS, TokenType.SESSION, TokenType.TABLE}
    FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        name: parser
        for name, parser in Parser.NO_PAREN_FUNCTION_PARSERS.items()
        if name in ("ANY", "CASE")
    }
    FUNCTION_PARSERS: ClassVar = {
        "CAST": lambda self: self.parse_cast(exp.Cast),
        "TRY_CAST": lambda self: self.parse_cast(exp.TryCast),
        "EXTRACT": lambda self: self._parse_extract(),
        "CEIL": lambda self: self.parse_rounded("CEIL"),
        "CEILING": lambda self: self.parse_rounded("CEIL"),
        "FLOOR": lambda self: self.parse_rounded("FLOOR"),
        "OVERLAY": lambda self: self._parse_overlay(),
        "POSITION": lambda self: self._parse_position(),
        "SUBSTRING": lambda self: self._parse_substring(),
        "TRIM": lambda self: self._parse_trim(),
        "JSON_VALUE": lambda self: self.parse_json("JSON_VALUE"),
        "JSON_QUERY": lambda self: self.parse_json("JSON_QUERY"),
        "JSON_EXISTS": lambda self: self.parse_json("JSON_EXISTS"),
        "TABLE": lambda self: self.parse_table_function(),
        "DESCRIPTOR": lambda self: self.parse_descriptor(),
        **{
            name: lambda self, name=name: self.parse_window(name)
            for name in (*WINDOW_FUNCTIONS, *map(str.lower, WINDOW_FUNCTIONS))
        },
    }

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise at once, and say where."""
        found = token or self._curr
        start = found.start if found else self._prev.end + 1 if self._prev else 0
        raise FlinkSyntaxError(message, start)

    def refuse(self, message: str, token: Token, *, hint: str) -> FlinkSyntaxError:
        """Make an error for what is understood but not supported."""
        return FlinkSyntaxError(message, token.start, hint=hint)

    # Tables.

    def _parse_table_parts(
        self,
        schema: bool = False,  # noqa: FBT001, FBT002 - sqlglot's own arguments
        is_db_reference: bool = False,  # noqa: FBT001, FBT002
        wildcard: bool = False,  # noqa: FBT001, FBT002
        fast: bool = False,  # noqa: FBT001, FBT002
    ) -> exp.Table | exp.Dot | None:
        table = super()._parse_table_parts(schema, is_db_reference, wildcard, fast)
        if isinstance(table, exp.Table) and self._match(TokenType.HINT):
            table.set("hints", [self._table_hints(self._prev)])
        return table

    def _table_hints(self, token: Token) -> TableHints:
        return TableHints(expressions=[exp.Literal.string(token.text)]).update_positions(token)

    def _parse_hint(self) -> exp.Hint | None:
        if not self._match(TokenType.HINT):
            return None
        token = self._prev
        return exp.Hint(expressions=[exp.Literal.string(token.text)]).update_positions(token)

    # Functions.

    def parse_cast(self, kind: type[exp.Cast]) -> exp.Expr:
        """`CAST(x AS TYPE)`, with the type in Spark's words."""
        value = self._parse_disjunction()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS after the value of a CAST")
        start = self._curr
        depth = 0
        while self._curr and (depth or self._curr.token_type != TokenType.R_PAREN):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
            self._advance()
        assert value is not None
        return self._cast(value, kind, start)

    def _cast(self, value: exp.Expr, kind: type[exp.Cast], start: Token) -> exp.Expr:
        text = self._find_sql(start, self._prev)
        try:
            to = spark_type(flink_type(text))
        except InvalidTableError as error:
            raise self.refuse(error.message, start, hint=error.hint) from None
        found = kind(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=to))
        limits = characters(text)
        if limits is None:
            return found
        is_padded, length = limits
        size = exp.Literal.number(length)
        cut = exp.Anonymous(this="LEFT", expressions=[found, size])
        if not is_padded:
            return cut
        return exp.Anonymous(this="RPAD", expressions=[cut, size.copy(), exp.Literal.string(" ")])

    def parse_rounded(self, name: str) -> exp.Expr:
        """`FLOOR(x)`, or `FLOOR(x TO DAY)`."""
        arguments = self._parse_csv(self._parse_lambda)
        if not self._match_text_seq("TO"):
            return exp.Anonymous(this=name, expressions=arguments)
        unit = self._parse_var(any_token=True, upper=True)
        assert unit is not None
        parts = [exp.Literal.string(unit.name), *arguments]
        return exp.Anonymous(this=f"{name}_TO", expressions=parts)

    def parse_json(self, name: str) -> exp.Expr:
        """`JSON_VALUE(x, path [RETURNING type])` and its neighbours."""
        arguments = self._parse_csv(self._parse_lambda)
        found: exp.Expr = exp.Anonymous(this=name, expressions=arguments)
        if self._match_text_seq("RETURNING"):
            start = self._curr
            while self._curr and self._curr.token_type != TokenType.R_PAREN:
                self._advance()
            found = self._cast(found, exp.Cast, start)
        if self._curr and self._curr.token_type != TokenType.R_PAREN:
            raise self.refuse(
                f"{name} with {self._curr.text.upper()} is not supported.",
                self._curr,
                hint="A missing value is NULL here; write COALESCE around it for another.",
            )
        return found

    def parse_descriptor(self) -> exp.Expr:
        """`DESCRIPTOR(column)`."""
        columns = self._parse_csv(self._parse_column)
        return exp.Anonymous(this="DESCRIPTOR", expressions=columns)

    # Windows.

    def parse_table_function(self) -> exp.Expr:
        """`TABLE(TUMBLE(…))` or `TABLE(f(…))`: what is inside."""
        found = self._parse_function(optional_parens=False)
        if found is None:
            self.raise_error("Expected a table function in TABLE(…)")
        assert found is not None
        return found

    def parse_window(self, kind: str) -> exp.Expr:
        """`TUMBLE(TABLE t, …)` as a table, `TUMBLE(time, size)` as a group function."""
        kind = kind.upper()
        index = self._index
        given: dict[str, exp.Expr] = {}
        ordered: list[exp.Expr] = []
        while True:
            name, value = self._window_argument()
            if name is None:
                ordered.append(value)
            else:
                given[name] = value
            if not self._match(TokenType.COMMA):
                break
        names = _ARGUMENTS[kind]
        given = {**dict(zip(names, ordered, strict=False)), **given}
        table = given.get("DATA")
        if not isinstance(table, exp.Table | exp.Subquery):
            return exp.Anonymous(this=kind, expressions=ordered)
        if unknown := [name for name in given if name not in names]:
            raise self.refuse(
                f"{kind} has no argument {unknown[0]}.",
                self._tokens[index],
                hint=f"Its arguments are {', '.join(names)}.",
            )
        return self._window_table(kind, given, index)

    def _window_argument(self) -> tuple[str | None, exp.Expr]:
        name = None
        if self._next and self._next.token_type == TokenType.FARROW:
            name = self._curr.text.upper()
            self._advance(2)
        if self._match(TokenType.TABLE):
            return name, self._window_source()
        if self._curr.token_type == TokenType.L_PAREN and self._next.token_type in (
            TokenType.SELECT,
            TokenType.WITH,
        ):
            return name, self._window_source()
        value = self._parse_disjunction()
        if value is None:
            self.raise_error("Expected an argument of a window")
        assert value is not None
        return name, value

    def _window_source(self) -> exp.Expr:
        table = (
            self._window_query()
            if self._curr.token_type == TokenType.L_PAREN
            else self._parse_table_parts()
        )
        if not isinstance(table, exp.Table | exp.Subquery):
            self.raise_error("Expected a table or a query")
        assert table is not None
        if self._match_text_seq("PARTITION", "BY") or self._match(TokenType.PARTITION_BY):
            is_wrapped = self._match(TokenType.L_PAREN)
            parse = self._parse_csv if is_wrapped else self._one
            table.set("partition", exp.Tuple(expressions=parse(self._parse_column)))
            if is_wrapped:
                self._match_r_paren()
        return table

    def _one(self, parse: object) -> list[exp.Expr]:
        assert callable(parse)
        return [parse()]

    def _window_query(self) -> exp.Expr | None:
        self._match_l_paren()
        query = self._parse_select()
        self._match_r_paren()
        return exp.Subquery(this=query)

    def _window_table(self, kind: str, given: dict[str, exp.Expr], index: int) -> WindowTable:
        time = given.get("TIMECOL")
        if not isinstance(time, exp.Anonymous) or time.name.upper() != "DESCRIPTOR":
            self.raise_error(
                f"{kind} needs DESCRIPTOR(time column) after the table", self._tokens[index]
            )
        assert time is not None
        table = given["DATA"]
        partition = table.args.pop("partition", None)
        times = [
            exp.Kwarg(this=exp.var(name), expression=given[name])
            for name in _ARGUMENTS[kind][2:]
            if name in given
        ]
        return WindowTable(
            kind=kind, table=table, time=time.expressions[0], partition=partition, expressions=times
        ).update_positions(self._tokens[index])

    # Intervals and brackets.

    def _parse_interval_span(
        self,
        this: exp.Expr,
        parse_function_unit: bool = True,  # noqa: FBT001, FBT002, ARG002
    ) -> exp.Interval:
        """`'10' MINUTE`, `'1 2:30' DAY TO MINUTE`, `'5' SECOND(3)`."""
        first = self._interval_unit()
        if not self._match_text_seq("TO"):
            return self.expression(exp.Interval(this=this, unit=exp.var(first)))
        second = self._interval_unit()
        span = exp.IntervalSpan(this=exp.var(first), expression=exp.var(second))
        return self.expression(exp.Interval(this=this, unit=span))

    def _interval_unit(self) -> str:
        token = self._curr
        unit = token.text.upper() if token else ""
        plain = unit.removesuffix("S")
        if plain not in (*_UNITS, "WEEK", "QUARTER", "MILLISECOND"):
            self.raise_error("Expected a unit such as SECOND, MINUTE, HOUR or DAY", token)
        self._advance()
        if self._match(TokenType.L_PAREN):  # the precision, which has no effect on the value
            self._parse_csv(self._parse_number)
            self._match_r_paren()
        return plain


_ARGUMENTS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}


class Flink(Dialect):
    """Flink SQL as sqlglot's dialect."""

    ALIAS_POST_VERSION = True
    Tokenizer = FlinkTokenizer
    Parser = FlinkParser


class ToSparkGenerator(SparkGenerator):
    """Spark SQL out of the trees of `FlinkParser`."""

    TRANSFORMS: ClassVar = {
        kind: write for kind, write in SparkGenerator.TRANSFORMS.items() if kind is not exp.TryCast
    }

    def trycast_sql(self, expression: exp.TryCast) -> str:
        """Null instead of an error, as Spark says it."""
        return f"TRY_CAST({self.sql(expression, 'this')} AS {self.sql(expression, 'to')})"

    def datatype_sql(self, expression: exp.DataType) -> str:
        """The types of literals such as `TIMESTAMP '2026-11-18 08:00:00'`; others are text."""
        if expression.this == exp.DType.TIMESTAMP:
            return "TIMESTAMP_NTZ"
        if expression.this == exp.DType.TIMESTAMPLTZ:
            return "TIMESTAMP"
        return super().datatype_sql(expression)


class ToSpark(Spark):
    """The dialect that writes Spark SQL."""

    Generator = ToSparkGenerator


_FLINK = Flink()
_SPARK = ToSpark()


def tokenize(text: str) -> list[Token]:
    """Cut a script into tokens; comments are left out, hints are tokens."""
    return _FLINK.tokenize(text)


def parse_query_tokens(tokens: list[Token], script: str) -> exp.Expr:
    """Parse a query that takes up all tokens."""
    parser = FlinkParser(dialect=_FLINK, error_level=ErrorLevel.IMMEDIATE)
    return _parsed(lambda: parser.parse(tokens, script), tokens, "Expected a query")


def parse_expression_tokens(tokens: list[Token], script: str) -> exp.Expr:
    """Parse an expression that takes up all tokens."""
    parser = FlinkParser(dialect=_FLINK, error_level=ErrorLevel.IMMEDIATE)
    return _parsed(
        lambda: parser.parse_into(exp.Condition, tokens, script), tokens, "Expected an expression"
    )


def _parsed(
    parse: Callable[[], list[exp.Expr | None]], tokens: list[Token], expected: str
) -> exp.Expr:
    start = tokens[0].start if tokens else 0
    try:
        found = parse()
    except FlinkSyntaxError as error:
        raise _named(error, tokens) from None
    except ParseError as error:
        cause = error.__cause__
        raise (
            cause if isinstance(cause, FlinkSyntaxError) else FlinkSyntaxError(expected, start)
        ) from None
    if not found or found[0] is None:
        raise FlinkSyntaxError(expected, start)
    return found[0]


def _named(error: FlinkSyntaxError, tokens: list[Token]) -> FlinkSyntaxError:
    """Say what is not supported, where a form of its own made the parser stop."""
    if error.advice:
        return error
    found = [
        each for each in tokens if each.start <= error.start and each.text.upper() in _OWN_FORMS
    ]
    if not found:
        return error
    word = found[-1].text.upper()
    said = f"{word} is not supported here as it is written"
    return FlinkSyntaxError(said, found[-1].start, hint=_OWN_FORMS[word])


def spark_sql(tree: exp.Expr) -> str:
    """Write a tree as Spark SQL."""
    return _SPARK.generate(tree, copy=False)
