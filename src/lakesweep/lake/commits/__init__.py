"""Commits: the records, their content, and every operation that makes or compares them."""
