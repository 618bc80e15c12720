"""Backends: one module a library. `corepy.dispatch` loads them by name, on first use."""
