"""Whether a run would work here, tried out before one is started."""
