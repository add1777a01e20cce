"""Programs for the explorer, one small function each, in files by what they are about."""
