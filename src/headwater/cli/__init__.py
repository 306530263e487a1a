"""The `headwater` command: one file for each noun or verb that is typed."""
