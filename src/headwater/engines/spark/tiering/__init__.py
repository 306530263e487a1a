"""Tiering in Spark: the tasks of a round as tasks of Spark."""
