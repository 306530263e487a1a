"""Apache Paimon as a lake format, on pypaimon."""
