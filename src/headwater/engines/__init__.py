"""Readers and writers inside the engines that people already use."""
