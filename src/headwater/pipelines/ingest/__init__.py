"""Rows from databases: a pipeline in YAML copies tables and follows their changes."""
