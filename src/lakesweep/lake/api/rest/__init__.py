"""The REST API, as lakeFS's clients speak it."""
