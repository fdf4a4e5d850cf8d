"""S3's HTTP: addresses, framing, checks, ranges, conditions, XML."""
