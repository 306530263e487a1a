"""Finding servers and talking to them."""
