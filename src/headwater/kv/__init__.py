"""The current rows of primary-key tables."""
