"""A catalog of Spark SQL in Python: the JVM calls it through py4j."""
