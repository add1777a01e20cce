"""Objects of a branch or commit: read, list, delete, copy."""
