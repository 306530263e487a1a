"""The catalog: databases, tables, schema versions, partitions and writer ids, kept in SQLite."""
