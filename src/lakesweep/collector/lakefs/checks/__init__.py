"""What a repository adds to the proof that an object is garbage."""
