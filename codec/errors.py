"""Every error the product raises on purpose.

S4WeightsError
├─ FormatError(ValueError)      a container, frame or plane that cannot be decoded
│  ├─ BadMagic                  not our bytes
│  ├─ UnsupportedVersion        a version, mode, layout or predictor this reader does not know
│  ├─ Truncated                 the bytes end before their own lengths say
│  ├─ ChecksumMismatch          a hash or checksum differs
│  ├─ LimitExceeded             a length or count past the bound in limits.py
│  └─ MissingBase               a delta whose base cannot be found
├─ RoundTripError               the encoder's own check failed; the frame is stored raw
├─ EngineUnavailable            the engine asked for cannot run here
├─ ConfigError(ValueError)      a setting that cannot be used, named
└─ ProxyError                   (proxy/errors.py)
   ├─ S3Error                   answered to the client as S3's XML document
   ├─ PlatformSilent            the metadata of this machine cannot be had
   ├─ NotEntitled               the product may not run here; the S3 port stays closed
   ├─ EntitlementUnknown        nobody could say whether it may; the S3 port stays closed
   └─ UpstreamError             the bucket answered what we cannot pass on
"""

from __future__ import annotations


class S4WeightsError(Exception):
    """Base of every error raised by s4weights."""


class FormatError(S4WeightsError, ValueError):
    """A container that cannot be decoded; the message says what, where, expected and found."""


class BadMagic(FormatError):
    """The bytes do not start (or end) as the format says."""


class UnsupportedVersion(FormatError):
    """A version, mode, layout or predictor that this reader does not know."""


class Truncated(FormatError):
    """The bytes end before their own lengths say."""


class ChecksumMismatch(FormatError):
    """A checksum or hash differs from the stored one."""


class LimitExceeded(FormatError):
    """A length or count is past its bound in `limits`."""


class MissingBase(FormatError):
    """The base of a delta cannot be found."""


class RoundTripError(S4WeightsError):
    """An encoded frame did not decode to its own input."""


class EngineUnavailable(S4WeightsError):
    """The engine asked for cannot run on this machine."""


class ConfigError(S4WeightsError, ValueError):
    """A setting that cannot be used."""
