"""Vectorised codecs between Arrow and the bytes of the log."""
