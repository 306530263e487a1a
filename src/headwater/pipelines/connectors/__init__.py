"""Connectors: what `CREATE TABLE … WITH ('connector' = …)` can read from and write to."""
