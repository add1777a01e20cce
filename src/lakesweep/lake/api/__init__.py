"""The lake on the wire: lakeFS's REST API, one router per noun, and the S3 gateway. Decides nothing, translates."""
