"""The tables of an Apache Fluss cluster, tiered by us."""
