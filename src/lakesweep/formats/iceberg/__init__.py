"""Iceberg's files, read for one question: which files does a table or view still need? Versions 1, 2 and 3."""
