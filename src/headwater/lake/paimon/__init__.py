"""Lake tables in the format of Apache Paimon."""
