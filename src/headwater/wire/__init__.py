"""The Fluss client protocol without I/O: frames, messages, API keys, error responses."""
