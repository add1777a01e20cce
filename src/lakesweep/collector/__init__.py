"""Runs: mark → plan → sweep, backup, restore, and the records that they leave."""
