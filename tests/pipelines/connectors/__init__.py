"""Connectors of pipelines."""
