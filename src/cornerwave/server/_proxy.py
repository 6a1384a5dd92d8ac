"""Signing in by a header that a proxy sets: for proxies that know who their users are.

    SignInHeader.of("X-Forwarded-User", ["127.0.0.1"])

The header states the name of an owner. It is believed from the addresses that were named alone, by
the other end of the connection, whatever other headers state; from elsewhere a request that has it
is refused, and so is one that has it twice. Without it a session by password counts.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from cornerwave.errors import AccessDenied, VaultError

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_TAKEN = ("authorization", "cookie", "host", "origin", "sec-fetch-site", "via", "forwarded")
_FROM_PROXIES = "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class SignInHeader:
    """A header that states who is signed in, and the proxies that it is believed from."""

    name: str
    proxies: tuple[Network, ...]

    @classmethod
    def of(cls, name: str, proxies: Iterable[str]) -> "SignInHeader":
        """Return the header, believed from addresses or networks. Raises VaultError.

        >>> SignInHeader.of("X-Forwarded-User", ["127.0.0.1", "10.0.0.0/8"]).name
        'x-forwarded-user'
        """
        lower = name.lower()
        if not _HEADER.fullmatch(name) or lower in (*_TAKEN, *_FROM_PROXIES):
            raise VaultError(f"{name!r} cannot be a sign-in header; name one such as X-Remote-User")
        named = tuple(map(_network, proxies))
        if not named:
            raise VaultError(
                "a sign-in header is believed only from proxies that are named", use=("proxy",)
            )
        return cls(lower, named)

    def owner(self, request: Request) -> str | None:
        """Return the name that a proxy states, None if none does. Raises AccessDenied."""
        values = request.headers.getlist(self.name)
        if not values:
            return None
        if not self._is_proxy(peer_of(request)):
            raise AccessDenied(
                f"the header {self.name} is believed only from the proxies that were named when "
                "the service was started"
            )
        if len(values) > 1:
            raise AccessDenied(f"the header {self.name} came twice; the proxy must replace it")
        try:  # servers hand over the bytes of a header as if they were Latin-1
            return values[0].encode("latin-1").decode("utf-8").strip()
        except UnicodeError:
            raise AccessDenied(f"the header {self.name} is not valid UTF-8") from None

    def _is_proxy(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        plain = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(plain in network for network in self.proxies)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise VaultError(
            f"{text!r} is not the address of a proxy; write 127.0.0.1 or 10.0.0.0/24"
        ) from None


class Peer:
    """Notes who is at the other end of a connection, before a header may state another client."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            client = scope.get("client")
            scope.setdefault("state", {})["peer"] = client[0] if client else ""
        await self._app(scope, receive, send)


def peer_of(request: Request) -> str:
    """Return the address at the other end of a connection, '' if it has none."""
    peer: str = request.state.peer
    return peer
