"""The only door to clock, randomness and background tasks."""
