"""Encryption and identity at the door: certificates, tokens, and who may knock."""
