"""Pipelines in SQL: connectors, scripts, jobs."""
