"""Reading rows: scans, tails, lookups."""
