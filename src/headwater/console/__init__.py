"""The console: pages that show what is in a storage, and let one ask it in SQL."""
