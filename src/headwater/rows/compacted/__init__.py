"""The compacted row of primary-key tables, read and written column by column."""
