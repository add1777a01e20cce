"""The five proposals for online hard delete that were rejected, each as a small model, and what breaks it."""
