"""Every client that the docs name, for real: one list of operations, one module a client, the table made by the run."""
