"""Tables as statements define them, as the planner sees them, and as connectors get them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql.types import StructField, StructType

from headwater.engines.spark.types import spark_type
from headwater.errors import InvalidTableError, MissingError
from headwater.model.arrow import arrow_type
from headwater.model.type_text import type_text
from headwater.pipelines.connectors.spi import (
    CONNECTOR,
    FIELD,
    Connector,
    ConnectorTable,
    checked,
    connector,
)
from headwater.pipelines.sql.names import Ability, DeclaredTable, TableName
from headwater.pipelines.sql.statements import (
    ComputedColumn,
    LikeClause,
    MetadataColumn,
    Options,
    PhysicalColumn,
    TableColumn,
    TableDefinition,
    WatermarkClause,
)

FLUSS = "fluss"
_PRINTERS = frozenset({"print", "blackhole"})


def struct_of(columns: Iterable[TableColumn]) -> StructType:
    """The physical columns for Spark."""
    physical = [each for each in columns if isinstance(each, PhysicalColumn)]
    return StructType(
        [StructField(each.name, spark_type(arrow_type(each.type))) for each in physical]
    )


def connector_table(
    table: DeclaredTable, options: Options, *, needed: Sequence[str] = ()
) -> ConnectorTable:
    """What a connector gets of a declared table."""
    return ConnectorTable(
        name=str(table.name),
        schema=struct_of(table.columns),
        options=options,
        needed=tuple(needed),
        primary_key=table.key,
        partitioned_by=table.partitioned_by,
    )


# A definition as a table.


def declared(name: TableName, definition: TableDefinition) -> DeclaredTable:
    """Make the table of a definition with a connector; raises if it does not fit the connector."""
    kind = definition.options.get(CONNECTOR)
    if kind is None:
        raise InvalidTableError(
            f"{name} needs a connector.",
            hint="Add WITH ('connector' = '…'), or create it in a catalog that stores tables, such "
            "as one of the type 'fluss'.",
        )
    of = connector(kind)
    options = {key: text for key, text in definition.options.items() if key != CONNECTOR}
    table = DeclaredTable(
        name=name,
        columns=definition.columns,
        key=definition.key,
        watermark=definition.watermark,
        connector=kind,
        options=options,
        hint_options=hint_options(of),
        partitioned_by=definition.partitioned_by,
        abilities=abilities(of, has_key=bool(definition.key)),
        is_updating=kind == FLUSS and bool(definition.key),
    )
    checked(of, connector_table(table, options))
    return table


def abilities(of: Connector, *, has_key: bool) -> frozenset[Ability]:
    """What the planner may ask of the tables of a connector."""
    found = {
        # What has no streams is read as it is: streams join it as a fixed table.
        Ability.BATCH_READ: of.read is not None,
        Ability.STREAM_READ: of.read is not None or of.read_stream is not None,
        Ability.APPEND: of.write is not None,
        Ability.OVERWRITE: of.overwrite is not None,
        Ability.PRINT_CHANGES: of.name in _PRINTERS,
        Ability.LOOKUP: of.name == FLUSS and has_key,
        Ability.VERSIONS: of.name == FLUSS and has_key,
        Ability.UPSERT: of.name == FLUSS and has_key,
    }
    return frozenset(ability for ability, has in found.items() if has)


def hint_options(of: Connector) -> frozenset[str] | None:
    """The options that a hint may give; None if their names are not known in advance."""
    names = [option.name for option in of.options]
    if of.free or any(FIELD in name for name in names):
        return None
    return frozenset(names)


# LIKE.

_PARTS = ("CONSTRAINTS", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_DISTRIBUTION = "DISTRIBUTION"


def with_like(
    definition: TableDefinition, like: LikeClause, base: DeclaredTable
) -> TableDefinition:
    """Add to a definition what it takes over from another table.

    By default everything, where the options of the statement win over those of the other table.
    """
    rules = _rules(like)
    taken = tuple(each for each in base.columns if _is_taken(each, rules))
    own = {each.name for each in definition.columns}
    kept_options = {CONNECTOR: base.connector, **base.options}
    return replace(
        definition,
        columns=(*(each for each in taken if each.name not in own), *definition.columns),
        key=definition.key or (base.key if rules["CONSTRAINTS"] != "EXCLUDING" else ()),
        watermark=definition.watermark
        or (base.watermark if rules["WATERMARKS"] != "EXCLUDING" else None),
        partitioned_by=definition.partitioned_by
        or (base.partitioned_by if rules["PARTITIONS"] != "EXCLUDING" else ()),
        options=_merged(kept_options, definition.options, rules["OPTIONS"]),
        like=None,
    )


def _rules(like: LikeClause) -> dict[str, str]:
    rules = dict.fromkeys((*_PARTS, _DISTRIBUTION), "INCLUDING") | {"OPTIONS": "OVERWRITING"}
    for verb, part in like.rules:
        verb_upper, part_upper = verb.upper(), part.upper()
        if part_upper == "ALL":
            rules = dict.fromkeys(rules, verb_upper)
        else:
            rules[part_upper] = verb_upper
    return rules


def _is_taken(column: TableColumn, rules: Mapping[str, str]) -> bool:
    match column:
        case ComputedColumn():
            return rules["GENERATED"] != "EXCLUDING"
        case MetadataColumn():
            return rules["METADATA"] != "EXCLUDING"
        case PhysicalColumn():
            return True


def _merged(held: Options, own: Options, rule: str) -> dict[str, str]:
    if rule == "EXCLUDING":
        return dict(own)
    clash = next((key for key in own if key in held and own[key] != held[key]), None)
    if rule == "INCLUDING" and clash is not None:
        raise InvalidTableError(
            f"The option '{clash}' is in both tables.",
            hint="Write LIKE … (OVERWRITING OPTIONS), or (EXCLUDING OPTIONS).",
        )
    return {**held, **own}


# Tables as text.


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`{}`".format(name.replace("`", "``"))


def literal(text: str) -> str:
    """A text in single quotes."""
    return "'{}'".format(text.replace("'", "''"))


def column_text(column: TableColumn) -> str:
    """A column as `CREATE TABLE` declares it."""
    comment = "" if column.comment is None else f" COMMENT {literal(column.comment)}"
    match column:
        case PhysicalColumn(name=name, type=kind):
            return f"{quoted(name)} {type_text(kind)}{comment}"
        case ComputedColumn(name=name, expression=expression):
            return f"{quoted(name)} AS {expression}{comment}"
        case MetadataColumn(name=name, type=kind, key=key, is_virtual=is_virtual):
            ending = " VIRTUAL" if is_virtual else ""
            return f"{quoted(name)} {type_text(kind)} METADATA FROM {literal(key)}{ending}{comment}"


def watermark_text(watermark: WatermarkClause) -> str:
    """A watermark as `CREATE TABLE` declares it."""
    return f"WATERMARK FOR {quoted(watermark.column)} AS {watermark.expression}"


def create_text(table: DeclaredTable, options: Options, *, comment: str | None = None) -> str:
    """A statement that creates a table like this one."""
    parts = [column_text(each) for each in table.columns]
    if table.watermark is not None:
        parts.append(watermark_text(table.watermark))
    if table.key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, table.key))}) NOT ENFORCED")
    lines = ",\n".join(f"  {each}" for each in parts)
    ending = "" if comment is None else f"\nCOMMENT {literal(comment)}"
    if table.partitioned_by:
        ending += f"\nPARTITIONED BY ({', '.join(map(quoted, table.partitioned_by))})"
    if options:
        ending += f"\nWITH (\n{options_text(options)}\n)"
    return f"CREATE TABLE {name_text(table.name)} (\n{lines}\n){ending}\n"


def options_text(options: Options) -> str:
    """Options as a `WITH` clause has them, one in a line."""
    return ",\n".join(f"  {literal(key)} = {literal(text)}" for key, text in options.items())


def name_text(name: TableName) -> str:
    """A full name in backticks."""
    return ".".join(map(quoted, (name.catalog, name.database, name.table)))


def missing_database(name: str, known: Iterable[str]) -> MissingError:
    """Make the error for a database that does not exist."""
    return MissingError(
        f"There is no database '{name}'.", hint=f"The databases are {', '.join(known) or 'none'}."
    )
