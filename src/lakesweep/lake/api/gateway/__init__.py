"""The embedded lake's S3 gateway: repositories as buckets, `<ref>/<path>` as keys."""
