"""Who may use the lake."""
