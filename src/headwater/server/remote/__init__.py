"""The remote copy of a server: moments of its files, and shipping them."""
