"""What is live, asked of a catalog: one folder per kind of catalog."""
