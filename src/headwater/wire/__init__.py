"""The Fluss client protocol without I/O: frames, messages, api keys, error answers."""
