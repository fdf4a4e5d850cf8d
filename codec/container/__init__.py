"""The byte stream in the bucket: header, frames, index, trailer. `docs/format.md` is the specification."""

from .bases import REPLACEABLE, BaseBody, depth_on, read_bases
from .frame_header import FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, is_index_next
from .header import HEADER_BYTES, MAGIC, VERSION, check_header, make_header, starts_container
from .index import INDEX_HEADER_BYTES, FrameSpan, Index, make_index, parse_index
from .reference import REFERENCE_BYTES, pack_reference, parse_reference
from .trailer import TRAILER_BYTES, LogicalETag, Trailer, looks_like_trailer

__all__ = [
    "FRAME_HEADER_BYTES",
    "FRAME_MAGIC",
    "HEADER_BYTES",
    "INDEX_HEADER_BYTES",
    "MAGIC",
    "REFERENCE_BYTES",
    "REPLACEABLE",
    "TRAILER_BYTES",
    "VERSION",
    "BaseBody",
    "FrameHeader",
    "FrameSpan",
    "Index",
    "LogicalETag",
    "Trailer",
    "check_header",
    "depth_on",
    "is_index_next",
    "looks_like_trailer",
    "make_header",
    "make_index",
    "pack_reference",
    "parse_index",
    "parse_reference",
    "read_bases",
    "starts_container",
]
