"""Who may ask what: tokens, and the Host that a browser was told."""

from __future__ import annotations

import hmac
import ipaddress
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pqrlearn.errors import DataError, HyperError
from pqrlearn.serve.errors import Refused

ROLES: Final = ("predict", "learn", "admin")
ADMIN: Final = "admin"
OPEN: Final = "open"
"""The role of what everybody may ask."""
READ: Final = "read"
"""The role of what everybody may ask who has a token."""
_SHORTEST = 16


class NotAllowed(Refused):
    """No token, or one that is for something else."""

    status = 401


class WrongOrigin(Refused):
    """A web page of another site, in somebody's browser."""

    status = 403


class WrongHost(Refused):
    """A name that this service does not have: perhaps a web page has made it up."""

    status = 421


class Guard:
    """Checks a request before anything else looks at it.

    With no tokens everybody may ask everything; such a service listens on loopback only. The token
    of `admin` is good for everything. A Host must be an address, `localhost` or one of `names`:
    by DNS rebinding, a web page can reach a server only under the page's own name.
    """

    def __init__(self, tokens: Mapping[str, str], names: tuple[str, ...] = ()) -> None:
        self._tokens = {role: f"Bearer {token}".encode() for role, token in tokens.items()}
        self._names = {"localhost", *(name.lower() for name in names)}
        self._good: set[bytes] = set()

    def check_host(self, host: bytes) -> None:
        if host in self._good:
            return
        name = host.decode("latin-1").lower()
        bare = name.startswith("[")  # an address of IPv6
        name = name[1:].partition("]")[0] if bare else name.partition(":")[0]
        if not is_address(name) and (bare or name not in self._names):
            raise WrongHost("the Host is not a name of this service: see --host-name")
        if len(self._good) < 100:
            self._good.add(host)

    def check_origin(self, origin: bytes, host: bytes) -> None:
        """A browser says which page asks: it must be one of this service."""
        if origin.partition(b"://")[2] != host:
            raise WrongOrigin("a page of another site may not ask this service")

    def check_token(self, role: str, given: bytes) -> None:
        if role == OPEN or not self._tokens:
            return
        roles = self._tokens if role == READ else (role, "admin")
        good = [
            hmac.compare_digest(self._tokens[one], given) for one in roles if one in self._tokens
        ]
        if not any(good):
            raise NotAllowed(f"needs the bearer token for {role}, in the header Authorization")


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def check_listening(host: str, tokens: Mapping[str, str]) -> None:
    """Refuses to listen where others are, without a token."""
    if not is_loopback(host) and not tokens:
        raise HyperError(
            f"host {host}: others could reach the service there; give it --tokens FILE, or let it "
            "listen on 127.0.0.1"
        )


def read_tokens(path: str | Path) -> dict[str, str]:
    """Tokens by role, from a TOML file."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not TOML: {error}") from None
    for role, token in found.items():
        if role not in ROLES:
            raise DataError(f"{path}: {role!r} is no role: there are {', '.join(ROLES)}")
        if not isinstance(token, str) or len(token) < _SHORTEST or not token.isascii():
            raise DataError(f"{path}: the token for {role} must have {_SHORTEST} ASCII characters")
    if not found:
        raise DataError(f"{path}: has no tokens; it needs some of {', '.join(ROLES)}")
    return found
