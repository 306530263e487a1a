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


def macros(alias: str, *, home: str) -> list[str]:
    """Return what creates the macros in a place, such as `hw.main.`; an empty one is right here."""
    return [
        _macro(f"{home}fluss_read", function_name(alias, "plan"), (*_PLACES, *_POSITION)),
        _macro(f"{home}fluss_tables", function_name(alias, "tables"), ("bootstrap := NULL",)),
        _macro(f"{home}fluss_offsets", function_name(alias, "offsets"), _PLACES),
        _macro(f"{home}fluss_snapshots", function_name(alias, "snapshots"), _PLACES),
    ]


def _macro(name: str, function: str, parameters: tuple[str, ...]) -> str:
    arguments = [parameter.split()[0] for parameter in parameters]
    named = ", ".join(f"'{argument.strip(chr(34))}': {argument}" for argument in arguments)
    # What no argument tells: how times without a zone are meant, and which query this is.
    told = "'zone': current_setting('TimeZone'), 'query': current_query_id()"
    call = f"{name_sql(function)}(CAST(to_json({{{named}, {told}}}) AS VARCHAR))"
    return (
        f"CREATE OR REPLACE MACRO {name}({', '.join(parameters)})"
        f" AS TABLE SELECT * FROM query({call})"
    )
