"""The judge: candidates meet references, every one of them once, and the account that proves it."""
