"""Headwater in DuckDB: `install` a storage, then `FROM hw.database.table`.

It needs the extra `headwater[duckdb]`.
"""

from headwater.engines.duckdb.installing import install, refresh

__all__ = ["install", "refresh"]
