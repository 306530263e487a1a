"""Headwater in DuckDB: `install` a storage, then `FROM hw.database.table`.

It needs the extra `headwater[duckdb]`.
"""

try:
    from headwater.engines.duckdb.install import install, refresh
except ModuleNotFoundError as fault:
    if fault.name != "duckdb":
        raise
    raise ModuleNotFoundError(
        "The package 'duckdb' is not installed. Run: pip install 'headwater[duckdb]'",
        name=fault.name,
    ) from fault

__all__ = ["install", "refresh"]
