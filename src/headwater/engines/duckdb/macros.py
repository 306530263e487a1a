"""The SQL functions that people call, as macros over the planner."""

from headwater.engines.duckdb.quoting import name_sql

_POSITION = (
    "mode := 'union'",
    "as_of := NULL",
    "token := NULL",
    "snapshot_id := NULL",
    "from_offsets := NULL",
    "to_offsets := NULL",
    "from_ts := NULL",
    "to_ts := NULL",
)
_TABLE = ("database", '"table"')


def function_name(alias: str, what: str) -> str:
    """Return what the function behind a macro is called."""
    return f"__{alias}_{what}"


def macros(alias: str, *, home: str) -> list[str]:
    """Return what creates the macros in a place, such as `hw.main.`; an empty one is right here."""
    return [
        _macro(f"{home}fluss_read", function_name(alias, "plan"), _TABLE, _POSITION),
        _macro(f"{home}fluss_tables", function_name(alias, "tables"), ()),
        _macro(f"{home}fluss_offsets", function_name(alias, "offsets"), _TABLE),
        _macro(f"{home}fluss_snapshots", function_name(alias, "snapshots"), _TABLE),
    ]


def _macro(name: str, function: str, places: tuple[str, ...], options: tuple[str, ...] = ()) -> str:
    """Return a macro in two forms: with the storage to ask first, and without."""
    forms = ", ".join(
        _form(function, (*storage, *places), options) for storage in ((), ("bootstrap",))
    )
    return f"CREATE OR REPLACE MACRO {name}{forms}"


def _form(function: str, places: tuple[str, ...], options: tuple[str, ...]) -> str:
    arguments = (*places, *(option.split()[0] for option in options))
    named = ", ".join(f"'{argument.strip(chr(34))}': {argument}" for argument in arguments)
    # What no argument tells: how times without a zone are meant, and which query this is.
    told = "'zone': current_setting('TimeZone'), 'query': current_query_id()"
    request = f"to_json({{{', '.join(filter(None, (named, told)))}}})"
    call = f"{name_sql(function)}(CAST({request} AS VARCHAR))"
    return f"({', '.join((*places, *options))}) AS TABLE (SELECT * FROM query({call}))"
