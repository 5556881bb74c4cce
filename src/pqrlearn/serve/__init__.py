"""A service that learns from late labels and loses nothing: `pqr serve`.

`service` is its core, which knows no HTTP: it decides about ids, appends to the `log` and learns
what was synced. `replica` is what a log makes of a model, alike while serving, in recovery and in
readers. `http` and its neighbours speak to the outside.
"""
