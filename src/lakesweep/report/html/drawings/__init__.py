"""Drawings as SVG, written by hand: bars, treemap, curve, timeline and commit graph."""
