"""Cursors: named positions that several readers share."""
