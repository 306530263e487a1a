"""Proof that nothing is lost and nothing is there twice: what an audit does, finds and proves."""

from headwater.audit.auditing import audit, audit_storage
from headwater.audit.finding import Check, Finding, Proof, Severity
from headwater.audit.report import AuditReport, Notes

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
