"""lakeFS, real or embedded: who is asked what, and how the answers become values."""
