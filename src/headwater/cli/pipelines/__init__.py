"""`headwater run`: pipelines in SQL, as scripts and in a shell."""
