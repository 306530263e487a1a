"""Inputs that nobody would send on purpose, for everything that decodes bytes of others."""
