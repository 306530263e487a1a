"""Doors: standard protocols by which other engines read tables, without our client."""
