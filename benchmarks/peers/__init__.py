"""Headwater beside what people would run instead: the same work, in one run, on one machine."""
