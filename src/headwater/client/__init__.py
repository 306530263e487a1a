"""What users call: clients, tables, scans, views, cursors, writers; in `sync` the blocking ones."""
