"""What a collector needs of a lakeFS-compatible server, tried on a repository that is thrown away afterwards."""
