"""Seeds that found something, with what they found; each stays a test."""

FOUND: tuple[tuple[int, str], ...] = ()
