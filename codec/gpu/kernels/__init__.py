"""Triton kernels, a module each. Every launch works through a table of descriptors: rows of 64-bit numbers and addresses.

The names of a row's fields stand beside the kernel; one program takes a tile of what one row describes. Interpreted where
TRITON_INTERPRET=1 is set before they are imported.
"""
