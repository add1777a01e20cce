"""Pages about runs: one HTML file each, without a request to anywhere. Sees run records and summaries only."""
