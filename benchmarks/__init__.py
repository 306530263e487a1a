"""Benchmarks: each prints a ratio against a plain baseline of the same run."""
