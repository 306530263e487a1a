"""Copies of a storage that can be trusted: made while it runs, checked, and put back."""

from headwater.backup.archive import BackupReport, backup, restore, verify

__all__ = ["BackupReport", "backup", "restore", "verify"]
