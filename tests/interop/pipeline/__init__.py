"""The whole pipeline on real clusters: Apache Fluss, a Spark standalone cluster, a lake."""
