"""Exactly-once writes of sinks, epoch by epoch."""
