"""Who asks: SigV4 in all the forms that S3's clients use."""
