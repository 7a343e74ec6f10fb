"""Who may open a page of viser: browsers that were sent to it, by a name of this machine, and no pages of others.

A web page that is open in the same browser could otherwise read what is shown and move it, by a websocket, or by a name of its own that it
lets lead to this machine. viser has no setting for this, so its server is made with another check of requests.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from catena.errors import MissingPackageError
from catena.locks import lock

_patching = lock()


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Let servers of viser that are made in the block, on a host of this name, refuse requests that are not `allowed`.

    It is an error if viser makes its servers another way.
    """
    from viser.infra import _infra
    from websockets.asyncio import server

    original, made = server.serve, []

    class Serve(original):
        def __init__(self, handler: Any, host: Any, port: Any, *given: Any, process_request: Any = None, **options: Any) -> None:
            if getattr(handler, "__module__", None) == _infra.__name__:
                made.append(self)
                process_request = _checked(process_request, name)
            super().__init__(handler, host, port, *given, process_request=process_request, **options)

    with _patching:
        server.serve = Serve
        try:
            yield
        finally:
            server.serve = original
    if not made:
        raise MissingPackageError("the live view needs a viser whose server can be guarded, which this version is not; install viser 1.1")


def _checked(handled: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that refuses requests, or hands them on."""

    def check(connection: Any, request: Any) -> Any:
        port = connection.local_address[1]
        if allowed(request.headers.get_all("Host"), request.headers.get_all("Origin"), port, name):
            return handled(connection, request)
        return connection.respond(403, "Open this page by the name of its machine, or by its address; no other page may use it.\n")

    return check


def allowed(hosts: list[str], origins: list[str], port: int, name: str = "localhost") -> bool:
    """Return whether a request to the server at a port, on a host of a name, may be answered, by its headers Host and Origin.

    Host is a name of this machine, or an address: strangers can let names lead here, but no addresses. Origin is the page that asks:
    the one that the server sent to this host, or to a name of this machine.

    >>> allowed(["localhost:8080"], ["http://localhost:8080"], 8080), allowed(["localhost:8080"], ["http://example.org"], 8080)
    (True, False)
    """
    if len(hosts) != 1 or len(origins) > 1:
        return False
    host = _place(f"//{hosts[0]}")
    if host is None or not (_is_own(host[0], name) or _is_address(host[0])):
        return False
    if not origins or host == _place(origins[0]):
        return True
    origin = _place(origins[0])
    return origin is not None and _is_own(origin[0], name) and origin[1] == port


def _place(address: str) -> tuple[str, int] | None:
    """Return the host and the port of an address."""
    try:
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    return (parts.hostname.rstrip("."), port) if parts.hostname and not parts.username else None


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def _is_own(host: str, name: str) -> bool:
    """Return whether a host is this machine: by the name that the server was given, or one that the system has."""
    own = socket.gethostname().lower()
    first = own.partition(".")[0]
    if host in ("localhost", "127.0.0.1", "::1", name.lower(), own, first, f"{first}.local"):
        return True
    return host.startswith(f"{first}.") and host == _full_name()


@cache
def _full_name() -> str:
    return socket.getfqdn().lower()  # which may ask the network
