"""Audits: prove that no row is lost and none is duplicated, and report what is wrong."""

from headwater.audit.report import AuditReport, Check, Finding, Notes, Proof, Severity
from headwater.audit.tables import audit, audit_storage

__all__ = [
    "AuditReport",
    "Check",
    "Finding",
    "Notes",
    "Proof",
    "Severity",
    "audit",
    "audit_storage",
]
