"""Options of tables and settings of the server, declared once as values."""
