"""S3's checksums: of a body, of a part, of an object made of parts."""
