"""Garbage collection of Nessie catalogs: mark what is live, expire the rest, delete now or later."""
