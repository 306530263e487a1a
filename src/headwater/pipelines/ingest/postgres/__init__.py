"""PostgreSQL as a source: its server, its stream of changes, its types, its rows in ranges."""
