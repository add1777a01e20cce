"""The collector's side: retention rules, retained commits, the list of uncommitted objects."""
