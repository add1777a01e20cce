"""Nessie: who is asked what, which contents are live, and where that is kept until files are swept."""
