"""The lake behind tables, as clients ask a coordinator about it."""
