"""One module a verb: what S3 answers, from the objects as the client knows them."""
