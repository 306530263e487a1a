"""Table options, and the settings of servers and clients, declared once as values."""
