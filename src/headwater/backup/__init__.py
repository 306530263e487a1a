"""Backups of a storage: taken while it runs, verified, and restored."""

from headwater.backup.archive import BackupReport, backup, restore, verify

__all__ = ["BackupReport", "backup", "restore", "verify"]
