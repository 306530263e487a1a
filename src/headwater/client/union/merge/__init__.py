"""Merging the changes of a log into the rows that a lake holds."""
