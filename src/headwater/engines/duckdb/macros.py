"""The SQL functions that people call, as macros over the planner."""

from headwater.engines.duckdb.quoting import name_sql

# Without the storage, which comes first, the others move up: see `Places`.
_PLACES = ("bootstrap", "database", '"table" := NULL')
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


def function_name(alias: str, what: str) -> str:
    """Return what the function behind a macro is called."""
    return f"__{alias}_{what}"


def macros(alias: str, *, home: str, is_temporary: bool = False) -> list[str]:
    """Return what creates the macros in a place, such as `hw.main.`; an empty one is right here."""
    create = f"CREATE OR REPLACE {'TEMP ' if is_temporary else ''}MACRO {home}"
    return [
        create + _macro("fluss_read", function_name(alias, "plan"), (*_PLACES, *_POSITION)),
        create + _macro("fluss_tables", function_name(alias, "tables"), ("bootstrap := NULL",)),
        create + _macro("fluss_offsets", function_name(alias, "offsets"), _PLACES),
        create + _macro("fluss_snapshots", function_name(alias, "snapshots"), _PLACES),
    ]


def _macro(name: str, function: str, parameters: tuple[str, ...]) -> str:
    arguments = [parameter.split()[0] for parameter in parameters]
    named = ", ".join(f"'{argument.strip(chr(34))}': {argument}" for argument in arguments)
    # What no argument tells: how times without a zone are meant, and which query this is.
    told = "'zone': current_setting('TimeZone'), 'query': current_query_id()"
    call = f"{name_sql(function)}(CAST(to_json({{{named}, {told}}}) AS VARCHAR))"
    return f"{name}({', '.join(parameters)}) AS TABLE SELECT * FROM query({call})"
