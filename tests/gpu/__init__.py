"""Kernels and the codec made of them, on a GPU where there is one; interpreted with TRITON_INTERPRET=1, which
tests/codec/gpu/test_interpreted.py does in processes of its own. The cases are the same.
"""
