"""One way to read: a view of a table is planned into splits, and splits give rows."""
