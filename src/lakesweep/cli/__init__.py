"""The command line: one file per command. Each parses, calls `collector`, and renders; heavy imports stand inside commands."""
