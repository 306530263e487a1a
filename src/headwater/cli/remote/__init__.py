"""Remote storage on the command line: its options, and what restores and proves it."""
