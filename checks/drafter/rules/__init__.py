"""The rules of the drafter doctor, one file per subject; each file exports CHECKS and RULES."""
