"""Enriching rows in Spark tasks by lookups in a primary-key table."""
