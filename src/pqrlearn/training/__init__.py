"""A training run: one configuration, validated once, then inputs, learner, loop, model file."""

from __future__ import annotations

from pqrlearn.training.config import CHECKPOINT_ROWS, TrainConfig
from pqrlearn.training.run import Monitor, TrainResult, train

__all__ = ["CHECKPOINT_ROWS", "Monitor", "TrainConfig", "TrainResult", "train"]
