"""Proof that nothing is lost and nothing is there twice."""
