"""Frames coded where they lie: on a GPU. Nothing here is imported before it is asked for, torch and triton least of all.

The only part of the codec that knows torch. Its kernels write what the native engine writes without Huffman codes.
"""
