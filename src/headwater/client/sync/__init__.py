"""The blocking API: the same calls without await."""
