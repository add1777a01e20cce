"""The ledger of a sweep: what is about to be deleted, until when, and what became of it."""
