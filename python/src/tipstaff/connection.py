"""Where the server is, and how it is spoken to."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from tipstaff.errors import ServerUnavailable

DEFAULT_ADDRESS = "localhost:50051"
CONNECT_SECONDS = 4.0
"""How long a server is waited for."""

MAX_MESSAGE = 16 << 20
"""Bytes of one message, either way."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),  # the server says what is too large
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


@dataclass(frozen=True)
class TLS:
    """An encrypted connection. Files are PEM."""

    ca_file: str | os.PathLike[str] | None = None
    """Whom to believe; None: the authorities that gRPC knows."""
    cert_file: str | os.PathLike[str] | None = None
    """The client's own certificate, where the server asks for one; its key beside it."""
    key_file: str | os.PathLike[str] | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            root_certificates=_content(self.ca_file),
            private_key=_content(self.key_file),
            certificate_chain=_content(self.cert_file),
        )


def _content(file: str | os.PathLike[str] | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()


@dataclass(frozen=True)
class Target:
    """A server, and the token it knows its caller by."""

    address: str
    token: str
    tls: TLS | None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What every call carries."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def channel(self) -> grpc.Channel:
        if self.tls is None:
            return grpc.insecure_channel(self.address, options=_OPTIONS)
        return grpc.secure_channel(self.address, self.tls.credentials(), options=_OPTIONS)

    def async_channel(self) -> grpc.aio.Channel:
        if self.tls is None:
            return grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        return grpc.aio.secure_channel(self.address, self.tls.credentials(), options=_OPTIONS)

    def absent(self) -> ServerUnavailable:
        """What is raised when nobody answers."""
        return ServerUnavailable(
            f"no Tipstaff server answers at {self.address}: start one with `tipstaff serve`, or set TIPSTAFF_ADDRESS",
            code=grpc.StatusCode.UNAVAILABLE,
        )


def find(address: str | None, token: str | None, tls: TLS | None) -> Target:
    """The server that is meant: by argument, else by environment, else the one of this
    machine and workspace."""
    return Target(
        address=address or os.environ.get("TIPSTAFF_ADDRESS") or DEFAULT_ADDRESS,
        token=token or os.environ.get("TIPSTAFF_TOKEN") or _workspace_token(),
        tls=tls,
    )


def _workspace_token() -> str:
    """What ``tipstaff serve --token`` prints."""
    environ = os.environ
    if os.path.isabs(environ.get("TIPSTAFF_STATE", "")):
        state = Path(environ["TIPSTAFF_STATE"])
    elif os.path.isabs(environ.get("XDG_STATE_HOME", "")):
        state = Path(environ["XDG_STATE_HOME"]) / "tipstaff"
    else:
        state = Path(environ.get("HOME", "/")) / ".local" / "state" / "tipstaff"
    workspace = os.path.realpath(environ.get("TIPSTAFF_WORKSPACE") or ".")
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
    try:
        return (state / "serve.token" / name).read_text().strip()
    except OSError:
        return ""  # the server will say that it needs one
