"""The embedded lake: a lakeFS-compatible versioned store that keeps the uncommitted-GC design's promises."""
