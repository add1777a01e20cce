"""lakesweep: a garbage collector for versioned data lakes."""
