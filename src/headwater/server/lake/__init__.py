"""The lake as a server knows it: who tiers which table, and how far."""
