"""Access to files: all reads and writes of data go through here."""
