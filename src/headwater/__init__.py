"""Streaming storage for real-time analytics that speaks the Apache Fluss client protocol."""

__version__ = "0.1.0"
