"""The ref store: ordered keys in partitions, changed by compare-and-set. In memory, on SQLite, on PostgreSQL."""
