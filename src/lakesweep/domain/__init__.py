"""Values and rules. Standard library only: no I/O, no Spark, no clock of its own."""
