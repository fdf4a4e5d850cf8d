"""The proxy's settings: one frozen dataclass, four sources, validated once."""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from s4weights.codec.engines import ENGINES, ENTROPIES
from s4weights.codec.errors import ConfigError
from s4weights.codec.limits import GPU_MEMORY_BYTES
from s4weights.codec.types import Level

PREFIX: Final = "S4W_"
MASK: Final = "********"
# What Kubernetes puts into every container where a service is called s4w.
_KUBERNETES: Final = re.compile(f"{PREFIX}(PORT|SERVICE)(_|$)")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting. Names are those of the flags, of S4W_* and of the TOML file."""

    upstream: str
    """A directory, s3://REGION, or the http(s) URL of an S3-compatible server."""
    listen: str = "127.0.0.1:9000"
    """Where S3 is spoken, HOST:PORT."""
    health: str = "127.0.0.1:8080"
    """Where /healthz, /readyz, /metrics and /status answer, HOST:PORT."""
    state_dir: Path = Path("~/.local/state/s4weights")
    """Spilled parts and the journal of open uploads; one proxy a directory."""
    access_key: str = ""
    """What clients sign with; by default the credentials of the proxy's own environment."""
    secret_key: str = field(default="", repr=False)
    """The secret half of access_key; shown nowhere."""
    credentials_file: str = ""
    """A TOML file of several keys for clients, with prefixes and read-only flags (docs/s3.md); read again as it changes."""
    tls_cert: str = ""
    """A PEM chain: S3 is then spoken over TLS alone. Read again as it changes."""
    tls_key: str = ""
    """The private key of tls_cert, in a file of its own."""
    domain: tuple[str, ...] = ()
    """Bases of virtual-host style names (BUCKET.DOMAIN), separated by commas."""
    mode: str = "auto"
    """auto, or passthrough: store new bodies as they come (containers are still read)."""
    engine: str = "auto"
    """auto (the GPU's where it runs here, else native), native, gpu or reference."""
    gpu_memory_bytes: int = GPU_MEMORY_BYTES
    """What the GPU's engine may take of the device's memory."""
    entropy: str = "open"
    """Of the GPU's engine: open; gdeflate (nvCOMP, where it gains); nvcomp-ans (exponents, which then only nvCOMP reads)."""
    level: str = "balanced"
    """fast (never the bottleneck), balanced or small (everything that gains)."""
    deltas: bool = True
    """Code a checkpoint against the one before it, and tensors against their twins; off: every object stands alone."""
    rebase: bool = True
    """Write an object again without its base, in the background, where the base is kept for it alone and costs more."""
    max_chain: int = 8
    """Objects that may lie behind one another, all of which a restore of the last one may read; 0: none."""
    max_restore_ratio: float = 3.0
    """A read of an object and its bases reads at most this many times the stored bytes of one without bases."""
    cache_bytes: int = -1
    """Stored bytes of recent checkpoints on the local disk, in the state directory; -1: a tenth of what is free."""
    threads: int = 0
    """Codec threads; 0: one a processor."""
    memory_bytes: int = 768 << 20
    """What all bodies in flight may hold together."""
    part_bytes: int = 8 << 20
    """Upstream parts at the start of an object, at least 5 MiB; they grow with it."""
    split_reads: bool = False
    """Read a body that passed through by several ranges at once also where the bucket keeps no versions: faster where each
    connection is slow, but a read then breaks off where its object is overwritten meanwhile, which S3's own never does."""
    upstream_checksums: bool = True
    """Send a CRC32C with what is stored, so that the bucket refuses what changed on its way; off for servers without it."""
    upstream_silence_s: float = 30.0
    """A bucket that says nothing for so long is given up, and the call made again where it may be."""
    upstream_retry_s: float = 50.0
    """A call that failed is not made again after so long; below what clients wait for an answer."""
    upload_max_age_s: float = 86_400.0
    """An upload that nobody touches for so long is aborted."""
    header_timeout_s: float = 75.0
    """A connection on which no whole head of a request comes for so long is closed."""
    body_timeout_s: float = 60.0
    """A client that sends nothing of a body for so long is given up: what was sent holds memory that others wait for."""
    send_timeout_s: float = 120.0
    """A client that takes nothing of an answer for so long is given up."""
    drain_s: float = 30.0
    """What requests under way are given at the end."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR: the least of what is logged, on stderr."""
    log_format: str = "text"
    """text, or json: one object a line."""
    entitlement: str = "off"
    """off; container: RegisterUsage of AWS Marketplace (ECS, EKS); ami: the product codes of this EC2 instance."""
    product_code: str = ""
    """Of AWS Marketplace; with one set, entitlement must say how it is checked. Needs [marketplace]."""
    product_key_file: str = ""
    """container: the product's public key (PEM), which the answer of RegisterUsage is verified with."""
    product_key_version: int = 1
    """container: that key's number."""
    identity_certificates_file: str = ""
    """ami: the RSA-2048 certificates (PEM) that AWS publishes for the identity of instances."""
    entitlement_retry_s: float = 60.0
    """Where nobody answers it is asked again for so long; the S3 port stays closed meanwhile, and after it."""
    otlp_endpoint: str = ""
    """An OpenTelemetry collector (OTLP over HTTP, http://HOST:4318) that is sent a trace of each request; needs [otel]."""
    encode_all: bool = False
    """For tests: treat every body as a checkpoint, whether it gains or not."""

    def __post_init__(self) -> None:
        _check_choice("mode", self.mode, ("auto", "passthrough"))
        _check_choice("engine", self.engine, ENGINES)
        _check_choice("entropy", self.entropy, ENTROPIES)
        _check_choice("level", self.level, tuple(level.value for level in Level))
        _check_choice("log_level", self.log_level.upper(), ("DEBUG", "INFO", "WARNING", "ERROR"))
        _check_choice("log_format", self.log_format, ("text", "json"))
        _check_at_least("threads", self.threads, 0)
        _check_at_least("max_chain", self.max_chain, 0)
        _check_at_least("max_restore_ratio", self.max_restore_ratio, 1)
        _check_at_least("cache_bytes", self.cache_bytes, -1)
        _check_at_least("gpu_memory_bytes", self.gpu_memory_bytes, 1)
        _check_at_least("memory_bytes", self.memory_bytes, 1)
        _check_at_least("part_bytes", self.part_bytes, 5 << 20)
        self._check_entitlement()
        for name in ("upstream_silence_s", "upload_max_age_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}: expected more than 0, found {getattr(self, name)}")
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError("access_key and secret_key: expected both or neither")
        if self.access_key and self.credentials_file:
            raise ConfigError("access_key and credentials_file: expected one of them, found both")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ConfigError("tls_cert and tls_key: expected both or neither")
        for name in ("header_timeout_s", "body_timeout_s", "send_timeout_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name}: expected seconds above 0, found {getattr(self, name)}")
        for name in ("listen", "health"):
            parse_address(name, getattr(self, name))

    def _check_entitlement(self) -> None:
        _check_choice("entitlement", self.entitlement, ("off", "container", "ami"))
        _check_at_least("product_key_version", self.product_key_version, 1)
        _check_at_least("entitlement_retry_s", self.entitlement_retry_s, 0)
        if bool(self.product_code) != (self.entitlement != "off"):
            raise ConfigError(
                "entitlement and product_code: expected container or ami with a product code, or off without one, "
                f"found {self.entitlement} and {self.product_code!r}"
            )
        needed = {"container": "product_key_file", "ami": "identity_certificates_file"}.get(self.entitlement)
        if needed and not getattr(self, needed):
            raise ConfigError(f"{needed}: expected a file where entitlement is {self.entitlement}, found nothing")


@dataclass(frozen=True, slots=True)
class Sourced:
    """Settings, and where each one came from: flag, environment, file or default."""

    settings: Settings
    sources: Mapping[str, str]

    def rows(self) -> list[tuple[str, Any, str]]:
        """(name, value, source) of every setting; secrets masked."""
        rows = []
        for one in fields(Settings):
            value = getattr(self.settings, one.name)
            shown = MASK if one.name == "secret_key" and value else value
            rows.append((one.name, str(shown) if isinstance(shown, Path) else shown, self.sources[one.name]))
        return rows


def load_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None, *, require_upstream: bool = True
) -> Sourced:
    """Flags before S4W_* before the file of --config or S4W_CONFIG before defaults.

    flags: only those that were given. Raises: ConfigError.
    """
    environment = os.environ if environment is None else environment
    file_name = flags.get("config") or environment.get(f"{PREFIX}CONFIG")
    layers = [
        ("flag", {name: value for name, value in flags.items() if name != "config" and value is not None}),
        ("environment", from_env(environment)),
        (f"file {file_name}", _from_file(Path(file_name)) if file_name else {}),
    ]
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for one in fields(Settings):
        for source, layer in layers:
            if one.name in layer:
                values[one.name] = _convert(one.name, layer[one.name], source)
                sources[one.name] = source
                break
        else:
            sources[one.name] = "default"
    if require_upstream and not values.get("upstream"):
        raise ConfigError(
            "upstream: expected a directory, s3://REGION or a URL (--upstream, S4W_UPSTREAM), found nothing"
        )
    values.setdefault("upstream", "")
    return Sourced(Settings(**values), sources)


def from_env(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that S4W_* name; the only reader of the environment. Raises: ConfigError on a name that is none."""
    names = {f"{PREFIX}{one.name.upper()}": one.name for one in fields(Settings)} | {
        f"{PREFIX}STATE": "state_dir",
        f"{PREFIX}TEST_ENCODE_ALL": "encode_all",
    }
    known = {*names, f"{PREFIX}CONFIG"}
    unknown = sorted(
        name for name in environment if name.startswith(PREFIX) and name not in known and not _KUBERNETES.match(name)
    )
    if unknown:
        raise ConfigError(f"environment: expected settings, found {', '.join(unknown)}")
    return {names[name]: value for name, value in environment.items() if name in names}


def parse_address(name: str, text: str) -> tuple[str, int]:
    """HOST:PORT, with brackets around an IPv6 host. Raises: ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{name}: expected HOST:PORT, found {text!r}")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _from_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration file {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"configuration file {path}: {error}") from None
    unknown = sorted(values.keys() - {one.name for one in fields(Settings)})
    if unknown:
        raise ConfigError(f"configuration file {path}: expected settings, found {', '.join(unknown)}")
    return values


def _convert(name: str, value: Any, source: str) -> Any:
    kinds = {one.name: one.type for one in fields(Settings)}
    kind = kinds[name]
    try:
        if kind == "Path":
            return Path(value).expanduser()
        if kind == "tuple[str, ...]":
            items = value.split(",") if isinstance(value, str) else value
            return tuple(item.strip() for item in items if item.strip())
        if kind == "bool":
            return value if isinstance(value, bool) else _BOOLEANS[str(value).lower()]
        if kind == "int":
            return _size(value)
        if kind == "float":
            return float(value)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{name} ({source}): expected {kind}, found {value!r}") from None
    return str(value)


_BOOLEANS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
_UNITS: Final = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _size(value: Any) -> int:
    text = str(value).strip().upper()
    for unit, times in _UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * times
    return int(text)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}: expected {', '.join(choices)}, found {value!r}")


def _check_at_least(name: str, value: float, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name}: expected at least {least}, found {value}")
