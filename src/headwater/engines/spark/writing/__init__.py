"""Writing tables from Spark: checks when a write is planned, epochs in its tasks."""
