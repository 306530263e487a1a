"""Who may do what: the needs of every call, decisions, and a trail of what was done."""
