"""Tables in DuckDB: a planner that writes SQL, and streams for what is not in files."""
