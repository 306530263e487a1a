"""The server: listener, handlers by verb, catalog, tablets and their upkeep."""
