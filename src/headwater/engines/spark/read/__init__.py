"""Reading tables in Spark: batches and streams."""
