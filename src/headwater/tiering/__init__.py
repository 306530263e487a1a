"""Rows from the hot log into lake tables, each offset exactly once."""
