"""Flink SQL on Spark: `parse` gives statements, `plan` gives steps, and a conductor runs them.

Three kinds of values meet here, all frozen:

- `statements`: what somebody wrote, one value per statement, with its place in the script;
- `names`: what the planner may ask about tables, views and settings while it plans;
- `steps`: what the conductor does, in order: views first, then one action.

The functions that others call:

    parse.parse(text: str) -> tuple[Statement, ...]
    script.is_complete(text: str) -> bool         # for a shell: is there an end of statement?
    plan.plan(statement: Statement, names: Names, *, label: str = "hw") -> Plan
    faults.fault(source: SourceText, message: str, *, hint: str = "", at: int = 0) -> StatementError

`parse` raises on the first wrong statement; `script.split(text)` gives the pieces to parse one by
one. Every error is a `StatementError`. Settings that are known are declared in `settings`.

Nothing in the deciding half imports Spark. It needs the extra `headwater[sql]`.
"""

try:
    import sqlglot  # noqa: F401 - the error comes before any other
except ModuleNotFoundError as fault:
    if fault.name != "sqlglot":
        raise
    raise ModuleNotFoundError(
        "The package 'sqlglot' is not installed. Run: pip install 'headwater[sql]'",
        name=fault.name,
    ) from fault
