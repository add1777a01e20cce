"""Work functions: I/O on a list of items, Arrow batches out. Plain Python; an engine decides where they run."""
