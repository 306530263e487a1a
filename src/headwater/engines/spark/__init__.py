"""Headwater in Spark: source, sink, catalog and joins, in pure Python."""
