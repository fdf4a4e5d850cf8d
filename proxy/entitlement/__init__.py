"""May this product run here? Asked once, before the S3 port opens; off without a product code."""
