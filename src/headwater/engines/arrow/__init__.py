"""Tables as pyarrow datasets."""
