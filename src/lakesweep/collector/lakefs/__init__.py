"""What a lakeFS repository answers to the collector, and the runs that only it has."""
