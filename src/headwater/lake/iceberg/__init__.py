"""Apache Iceberg as a lake format, on pyiceberg."""
