"""Repositories, branches, tags, and what a ref means."""
