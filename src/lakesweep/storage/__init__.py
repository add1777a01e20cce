"""Object stores behind one client: local files, S3 and compatibles, Azure, Google Cloud Storage, memory."""
