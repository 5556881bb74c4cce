"""Why a request is refused, with the status that HTTP has for it."""

from __future__ import annotations

from pqrlearn.errors import PqrError


class Refused(PqrError):
    """A request that changes nothing."""

    status = 422


class UnknownId(Refused):
    """No row has this id, or not any more."""

    status = 404


class Contradiction(Refused):
    """The id has another row, or another label."""

    status = 409


class TooLate(Refused):
    """The row is not waiting for a label any more."""

    status = 410


class Unavailable(Refused):
    """The service cannot take the request now, or until it is started again."""

    status = 503
