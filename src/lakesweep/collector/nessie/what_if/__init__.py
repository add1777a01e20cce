"""What other cut-offs would free: only questions, no write."""
