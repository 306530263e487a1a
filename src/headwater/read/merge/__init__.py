"""Rows of the lake with the changes since."""
