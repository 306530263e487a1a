"""Seeds that found something, with what they found; each stays a test.

When the simulation itself changes, a seed becomes another run. Then what it found is broken anew
for a moment, and a seed put in its place that finds it.
"""

FOUND: tuple[tuple[int, str], ...] = (
    (5, "a log that retention cuts while the last read of all goes on"),
    (3270, "rows that went to the lake, and from the log, between the two looks of a scan"),
    (154, "cursors that cannot be reached, told as cursors that are wrong"),
    (50, "a write that outlives an earlier one of its file, which a log takes for damage"),
)
