"""Bytes in, bytes out: the container and everything that fills it. No I/O, no await, no torch."""
