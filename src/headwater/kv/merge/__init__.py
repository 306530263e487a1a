"""The rules by which a written row meets the row that is held for its key."""
