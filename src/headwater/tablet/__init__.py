"""One bucket in use: append, upsert, look up and read, and one sync for all that wait."""
