"""The write path: log tablet, group commit."""
