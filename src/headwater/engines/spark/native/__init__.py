"""The union read by which Spark takes the files of the lake itself, and we add what is newer."""
