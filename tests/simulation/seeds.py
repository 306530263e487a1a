"""Seeds that found something, with what they found; each stays a test."""

FOUND: tuple[tuple[int, str], ...] = (
    (23, "a log that retention cuts while the last read of all goes on"),
    (100058, "rows that went to the lake, and from the log, between the two looks of a scan"),
    (100128, "cursors that cannot be reached, told as cursors that are wrong"),
    (30001, "a write that outlives an earlier one of its file, which a log takes for damage"),
)
