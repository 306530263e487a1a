"""The text of a pipeline: parse it, check all of it, and tell every fault with its place."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import partial

from headwater.config.lake import value_or_file
from headwater.config.options import check_properties
from headwater.engines.spark.options import SHARED_OPTIONS, given_options
from headwater.errors import InvalidValueError
from headwater.model.path import TablePath, check_table_path
from headwater.pipelines.ingest import form
from headwater.pipelines.ingest.yaml_text import (
    FormFaults,
    PlacedText,
    Section,
    choice_of,
    root_of,
    values_of,
)
from headwater.pipelines.sql.faults import meant

PORT_DEFAULT = 5432
PORT_MAX = 65_535
PARALLELISM_MAX = 256
BUCKETS_MAX = 4096
RANGE_ROWS_MAX = 1_000_000
RANGE_ROWS_MIN = 100
SOURCES = ("postgres",)
_OTHER_SOURCES = ("mysql", "kafka", "mongodb", "oracle", "sqlserver")
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_NOT_SLOT = re.compile(r"[^a-z0-9_]+")
_WHOLE = re.compile(r"[1-9][0-9]{0,8}")
_PLAIN_COLUMN = re.compile(r"[\w$]+")
_EVERYTHING = "*"


class SslMode(StrEnum):
    """How the connection to the database is encrypted, in the words of PostgreSQL."""

    DISABLE = "disable"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


def parse_form(text: str) -> form.PipelineForm:
    """Parse a pipeline; raises one error that tells all faults."""
    faults = FormFaults.of(text)
    root = root_of(text, faults)
    handling = _handling(_needed(root, "pipeline"))
    source = _source(_needed(root, "source"), handling.name)
    sink = _sink(_needed(root, "sink"))
    transforms = tuple(map(_transform, root.sections("transform")))
    routes = tuple(map(_route, root.sections("route")))
    root.finish()
    faults.check()
    return form.PipelineForm(
        source=source, sink=sink, transforms=transforms, routes=routes, handling=handling
    )


def _needed(root: Section, key: str) -> Section | None:
    found = root.section(key)
    if found is None:
        root.fault(f"A pipeline needs '{key}'.", at=root.at)
    return found


# ---- source


def _source(section: Section | None, name: str) -> form.PostgresSource:
    if section is None:
        return _NO_SOURCE
    _check_type(section, SOURCES, _OTHER_SOURCES)
    section.text("name")
    user = section.text("username")
    if user is None:
        user = section.required("user")
    made = form.PostgresSource(
        host=section.required("host").value or section.name,
        port=section.whole("port", PORT_DEFAULT, low=1, high=PORT_MAX),
        user=user.value,
        password=section.parsed("password", lambda text: value_or_file("password", text), None),
        database=section.required("database").value,
        tables=_patterns(section, "tables"),
        tables_exclude=_patterns(section, "tables.exclude"),
        slot=_slot(section, name),
        publication=section.parsed("publication.name", str, f"headwater_{_plain(name)}"),
        ssl_mode=section.choice("ssl.mode", SslMode.PREFER).value,
        startup=section.choice("scan.startup.mode", form.IngestStart.INITIAL),
        range_rows=section.whole(
            "scan.incremental.snapshot.chunk.size",
            form.RANGE_ROWS_DEFAULT,
            low=RANGE_ROWS_MIN,
            high=RANGE_ROWS_MAX,
        ),
    )
    if not made.tables:
        section.fault("'source' names no tables.", at=section.at, hint=_TABLES_HINT)
    section.finish()
    return made


_TABLES_HINT = r"Write for example `tables: public.orders, shop.\.*`."
_NO_SOURCE = form.PostgresSource(
    host="", port=PORT_DEFAULT, user="", database="", tables=(), slot="", publication=""
)


def _check_type(section: Section, known: tuple[str, ...], others: tuple[str, ...]) -> None:
    kind = section.required("type")
    if not kind.value or kind.value in known:
        return
    what = "is not supported yet" if kind.value in others else "is not known"
    hint = f"{meant(kind.value, known)} Types are: {', '.join(known)}.".strip()
    section.fault(f"The type '{kind.value}' {what}.", at=kind.at, hint=hint)


def _slot(section: Section, name: str) -> str:
    found = section.text("slot.name")
    if found is None:
        return f"headwater_{_plain(name)}"[:63]
    if not _SLOT.fullmatch(found.value):
        section.fault(
            f"A slot cannot be called '{found.value}'.",
            at=found.at,
            hint="Use small letters, digits and '_', at most 63.",
        )
    return found.value


def _plain(name: str) -> str:
    """Make a name of what a slot allows."""
    return _NOT_SLOT.sub("_", name.lower()).strip("_")


def _patterns(section: Section, key: str) -> tuple[form.TablePattern, ...]:
    found = (section.parse(each, form.TablePattern.of, None) for each in section.texts(key))
    return tuple(each for each in found if each is not None)


# ---- sink


def _sink(section: Section | None) -> form.FlussSink:
    if section is None:
        return form.FlussSink(servers=())
    _check_type(section, ("fluss",), ())
    section.text("name")
    servers = values_of(section.texts("bootstrap.servers"))
    if not servers:
        section.fault("'sink' needs 'bootstrap.servers'.", at=section.at)
    made = form.FlussSink(
        servers=servers,
        buckets=_numbers(section),
        bucket_keys={
            name: tuple(part.strip() for part in text.value.split(","))
            for name, text in section.pairs("bucket.key").items()
        },
        properties=_table_options(section),
        client=_client_options(section),
        taken=_taken(section),
    )
    section.finish()
    return made


def _table_options(section: Section) -> Mapping[str, str]:
    found = {f"table.{key}": text for key, text in section.prefixed("properties.table.").items()}
    for key, text in found.items():
        section.parse(text, partial(_check_table_option, key), None)
    return {key: text.value for key, text in found.items()}


def _client_options(section: Section) -> Mapping[str, str]:
    found = {f"client.{key}": text for key, text in section.prefixed("properties.client.").items()}
    for key, text in found.items():
        section.parse(text, partial(_check_client_option, key), None)
    return {
        key: section.parse(text, lambda value: value_or_file("client option", value), "")
        for key, text in found.items()
    }


def _check_table_option(name: str, value: str) -> None:
    check_properties({name: value})


def _check_client_option(name: str, value: str) -> None:
    given_options({name: value}, SHARED_OPTIONS)


def _numbers(section: Section) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for name, text in section.pairs("bucket.num").items():
        if _WHOLE.fullmatch(text.value) and int(text.value) <= BUCKETS_MAX:
            found[name] = int(text.value)
            continue
        section.fault(
            f"'bucket.num' is a number from 1 to {BUCKETS_MAX}, not '{text.value}'.",
            at=text.at,
            hint="Write one number for all tables, or table: number for each.",
        )
    return found


def _taken(section: Section) -> frozenset[form.SchemaChange]:
    included = _changes(section, "include.schema.changes")
    return (included or frozenset(form.SchemaChange)) - _changes(section, "exclude.schema.changes")


def _changes(section: Section, key: str) -> frozenset[form.SchemaChange]:
    found = (choice_of(text, form.SchemaChange, section, what=key) for text in section.texts(key))
    return frozenset(each for each in found if each is not None)


# ---- what happens on the way


def _transform(section: Section) -> form.TransformRule:
    tables = _pattern(section)
    section.text("description")
    for key, why in _REFUSED.items():
        section.refuse(key, why)
    columns: list[str] = []
    for each in section.texts("projection"):
        if each.value != _EVERYTHING and not _PLAIN_COLUMN.fullmatch(each.value):
            section.fault(
                f"'{each.value}' is not the name of a column.",
                at=each.at,
                hint="A projection names columns, or is '*': computed columns are not supported.",
            )
        columns.append(each.value)
    made = form.TransformRule(
        tables=tables,
        columns=None if _EVERYTHING in columns or not columns else tuple(columns),
        partition_keys=values_of(section.texts("partition-keys")),
    )
    section.finish()
    return made


_REFUSED = {
    "filter": "a row that no longer fits would have to be deleted",
    "primary-keys": "a table has the key that it has in the database",
    "table-options": "give options to all tables of the sink, as 'properties.table.…'",
    "converter-after-transform": "deletes stay deletes",
}


def _route(section: Section) -> form.RouteRule:
    tables = _pattern(section)
    section.text("description")
    target = section.required("sink-table")
    symbol = section.text("replace-symbol")
    shown = target.value.replace(symbol.value, "table") if symbol else target.value
    section.parse(PlacedText(shown, target.at), _check_path, None)
    section.finish()
    return form.RouteRule(
        tables=tables, sink_table=target.value, symbol=symbol.value if symbol else None
    )


def _check_path(text: str) -> None:
    if text.count(".") != 1:
        raise InvalidValueError(
            f"'{text}' is not the name of a table.", hint="Write database.table."
        )
    database, _, table = text.partition(".")
    check_table_path(TablePath(database, table))


def _pattern(section: Section) -> form.TablePattern:
    found = section.required("source-table")
    return section.parse(found, form.TablePattern.of, _NO_TABLE)


_NO_TABLE = form.TablePattern.of("none.none")


# ---- the pipeline itself


def _handling(section: Section | None) -> form.Handling:
    if section is None:
        return form.Handling(name="pipeline")
    name = section.required("name")
    if len(name.value) > form.NAME_CHARACTERS_MAX or not _plain(name.value):
        section.fault(
            f"A pipeline cannot be called '{name.value}'.",
            at=name.at,
            hint=f"Use letters and digits, at most {form.NAME_CHARACTERS_MAX} characters.",
        )
    default = form.Handling(name=name.value)
    section.refuse("local-time-zone", "times keep the zone that they have in the database")
    made = form.Handling(
        name=name.value,
        parallelism=section.whole("parallelism", default.parallelism, low=1, high=PARALLELISM_MAX),
        behavior=section.choice("schema.change.behavior", default.behavior),
        errors=section.choice("error.handling", default.errors),
        dead_letters=section.parsed("dead.letter.table", _a_path, default.dead_letters),
    )
    section.finish()
    return made


def _a_path(text: str) -> str:
    _check_path(text)
    return text
