"""Run records as people read them. Sees run records only."""
