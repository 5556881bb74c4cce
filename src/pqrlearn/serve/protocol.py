"""HTTP connections that must come to the point: slow and endless requests are closed."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_SECONDS: Final = 30.0
"""From the first byte of a request, or from connecting, to its last byte."""
MOST_HEAD_BYTES: Final = 1 << 16


class Protocol(HttpToolsProtocol):
    """Closes a connection whose request takes too long to come in, or whose head is too large."""

    request_seconds = REQUEST_SECONDS
    _deadline: TimerHandle | None = None
    _coming_in = False
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._watch()
        if self._head_bytes >= 0:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES and self._is_head_only(data):
                self.transport.abort()
                return
        super().data_received(data)
        if self._coming_in:  # the beginning of another request, behind one that was complete
            self._watch()

    def _is_head_only(self, data: bytes) -> bool:
        """Whether a head has not ended in these bytes either."""
        return b"\r\n\r\n" not in data

    def on_message_begin(self) -> None:
        self._coming_in, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._coming_in, self._head_bytes = False, 0
        self._unwatch()
        super().on_message_complete()

    def _watch(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.request_seconds, self._too_slow)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()
