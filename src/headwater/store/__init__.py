"""Bytes in places: the only door to files."""
