"""Bytes on disk, in lakeFS's own formats and in Iceberg's: read with every bound checked; lakeFS's written so that lakeFS reads them."""
