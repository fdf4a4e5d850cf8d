"""Measuring and estimating on real bodies, which are read by range only and never changed."""
