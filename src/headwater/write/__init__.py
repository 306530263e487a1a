"""One way to write: rows become batches, and batches become requests."""
