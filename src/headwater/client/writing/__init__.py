"""Writing rows: batches, sequences, acknowledgements."""
