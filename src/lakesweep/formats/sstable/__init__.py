"""The table files that ranges and metaranges are: RocksDB's block-based tables, as Pebble writes them for lakeFS.

Layout, without gaps: data blocks · index blocks · properties · metaindex · footer. Every block carries a checksum, and the
reader wants the blocks to tile the file, so each byte is vouched for by a checksum or by the footer's own rules.
"""

from lakesweep.formats.sstable.reader import Table, open_table
from lakesweep.formats.sstable.records import Records
from lakesweep.formats.sstable.writer import BreakRule, TableWriter

__all__ = ["BreakRule", "Records", "Table", "TableWriter", "open_table"]
