"""What other rules would free: only questions, no write."""
