"""Where live sets are kept: in memory, or in a database in nessie-gc's own tables.

SQLAlchemy is loaded when a database is opened, so that everything else works without it.
"""
