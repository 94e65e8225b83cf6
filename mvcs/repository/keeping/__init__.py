"""Compaction, retention and quotas of one repository."""
