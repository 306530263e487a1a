"""`headwater doors`: its options, and how it runs."""
