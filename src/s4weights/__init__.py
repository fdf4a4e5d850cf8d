"""s4weights."""
