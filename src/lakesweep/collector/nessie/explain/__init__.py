"""Why a file is kept or goes: only questions, no write."""
