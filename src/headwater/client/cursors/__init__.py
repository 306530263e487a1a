"""Cursors: named positions in a table, shared by the readers of a group."""
