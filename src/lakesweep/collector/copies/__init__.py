"""Copies of what a mark names: made, verified, in an order that needs few requests."""
