"""Seeds that found something, with what they found; each stays a test.

When the simulation itself changes, a seed becomes another run. Then what it found is broken anew
for a moment, and a seed put in its place that finds it.
"""

FOUND: tuple[tuple[int, str], ...] = (
    (5, "a log that retention cuts while the last read of all goes on"),
    (
        100_024,
        "rows that are not durable yet, told as missing in the log, as too many scans are open",
    ),
    (154, "cursors that cannot be reached, told as cursors that are wrong"),
    (50, "a write that outlives an earlier one of its file, which a log takes for damage"),
)
