"""A local directory with S3's semantics: the embedded default."""

from .store import DirectoryUpstream

__all__ = ["DirectoryUpstream"]
