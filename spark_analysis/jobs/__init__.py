"""Whole runs: read, transform, check, write."""
