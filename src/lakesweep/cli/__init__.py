"""The command line: one file per command. Each parses, calls `runs`, and renders; heavy imports stand inside commands."""
