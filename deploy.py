"""The runbook."""
