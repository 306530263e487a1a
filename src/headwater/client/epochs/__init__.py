"""Rows of numbered epochs, written exactly once however often they are sent."""
