"""The nouns of Headwater: types, schemas, tables, buckets, offsets. No I/O."""
