"""What can be chosen about a service, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pqrlearn.errors import HyperError


@dataclass(frozen=True)
class Settings:
    """Times are in seconds. Limits are generous: they bound memory, not use."""

    label_window: float | None = None
    """How long a row waits for its label; None: until it has one."""
    unlabelled: Literal["negative", "forget"] = "negative"
    """What becomes of a row whose window has passed."""
    late: Literal["learn", "refuse"] = "refuse"
    """What a label does that comes after its row was learned as a negative."""
    keep_log: bool = False
    segment_bytes: int = 64_000_000
    snapshot_records: int = 1_000_000
    """How many records are learned between two snapshots."""
    max_waiting: int = 10_000_000
    max_finished: int = 1_000_000
    max_pending: int = 100_000
    """Records that are not on disk yet."""
    max_unlearned: int = 1_000_000
    """Records that are not learned yet, because a snapshot is being written."""
    max_features: int = 10_000
    """Of a row."""
    max_pairs: int = 1_000_000
    """Of a row, where the model has pairs."""
    max_rows: int = 10_000
    """Of a batch."""
    max_body: int = 64_000_000
    """Bytes of a request."""
    max_bodies: int | None = None
    """Bytes of all requests at a time; None: four times `max_body`."""

    @property
    def all_bodies(self) -> int:
        return 4 * self.max_body if self.max_bodies is None else self.max_bodies

    def __post_init__(self) -> None:
        if self.label_window is not None and not 0 < self.label_window < 1e9:
            raise HyperError(
                f"label_window={self.label_window!r} must be more than 0 and less than 1e9 seconds"
            )
        for name, words in (("unlabelled", ("negative", "forget")), ("late", ("learn", "refuse"))):
            if getattr(self, name) not in words:
                raise HyperError(f"{name}={getattr(self, name)!r} must be {' or '.join(words)}")
        for name in (
            *("segment_bytes", "snapshot_records", "max_waiting", "max_finished", "max_pending"),
            *("max_unlearned", "max_features", "max_pairs", "max_rows", "max_body"),
        ):
            if getattr(self, name) < 1:
                raise HyperError(f"{name}={getattr(self, name)!r} must be at least 1")
        if self.all_bodies < self.max_body:
            raise HyperError(
                f"max_bodies={self.max_bodies!r} must be at least max_body={self.max_body!r}"
            )
