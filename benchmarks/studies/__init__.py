"""Studies of accuracy: who predicts better, on which data, with which settings."""
