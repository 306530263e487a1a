"""Catalogs of a pipeline session: where databases, tables and views are kept."""
