"""S3 and compatibles: requests of our own, signed, sent and read here."""
