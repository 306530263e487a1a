"""Proof that lake tables hold what they say of the logs, and all of their files."""
