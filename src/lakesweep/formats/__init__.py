"""Bytes on disk, in lakeFS's own formats: read with every bound checked, written so that lakeFS reads them."""
