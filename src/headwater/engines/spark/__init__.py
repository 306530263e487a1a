"""Headwater in Spark: source, sink, catalog and joins, in Python alone."""
