"""Why an object is kept or goes: only questions, no write."""
