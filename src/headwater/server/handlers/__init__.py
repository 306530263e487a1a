"""What the server does for each API, one file per noun or verb."""
