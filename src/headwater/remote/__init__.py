"""Remote storage: a copy of a storage in an object store, seconds behind, and back from there."""
