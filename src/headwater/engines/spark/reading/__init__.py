"""Reading tables from Spark: what to read, in which pieces, and from where on."""
