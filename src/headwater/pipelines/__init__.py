"""Pipelines as text: statements that run as Spark jobs."""
