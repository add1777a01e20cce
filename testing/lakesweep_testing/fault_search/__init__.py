"""One fault at every operation of a run in turn: the run ends right, or with a clear error and nothing live lost."""
