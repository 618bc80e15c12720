"""Computing on a cluster: the one step that the ``dask`` device cannot take by itself."""

from __future__ import annotations

from typing import Any

from corepy._errors import BackendUnavailableError, bad_argument, bad_type, worded
from corepy._extensions import is_there
from corepy._signals import let_through

__all__ = ["connect"]


def connect(address: str, *, timeout: float = 10.0) -> Any:
    """Compute arrays on the ``dask`` device in a cluster from now on, in the whole process.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``"tcp://10.0.0.1:8786"``.
    timeout : float
        Seconds to wait for its answer.

    Returns
    -------
    distributed.Client
        The connection. Its ``close()``, or the end of a ``with`` block, makes this process compute
        in its own threads again; its ``dashboard_link`` shows what the cluster is doing.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If the address is none, or `timeout` is not positive.
    BackendUnavailableError
        If ``distributed`` is not installed or broken, or no scheduler answers.

    Notes
    -----
    The workers need corepy too, for its NumPy backend computes their chunks. Arrays that were made
    before the call are computed there as well.
    """
    if not isinstance(address, str):
        raise bad_type("connect", "address", address, "a str")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise bad_type("connect", "timeout", timeout, "a number of seconds")
    if not timeout > 0:
        raise bad_argument("connect", "timeout", timeout, "a positive number of seconds")
    if not is_there("distributed"):
        raise BackendUnavailableError(
            "connect: distributed is not installed; expected it beside Dask: "
            "pip install 'dask[distributed]'"
        )
    try:
        from distributed import Client
        from distributed.comm import parse_address, resolve_address
    except Exception as error:  # any failure of a foreign library
        let_through(error)
        why = f"connect: distributed is not usable: {worded(error)}"
        raise BackendUnavailableError(why) from error
    try:
        if not parse_address(address)[1]:
            raise ValueError("it names no host")
        resolve_address(address)
    except (ValueError, OSError) as error:
        let_through(error)
        expected = f"a scheduler's address such as 'tcp://10.0.0.1:8786' ({error})"
        raise bad_argument("connect", "address", address, expected) from error
    try:
        return Client(address, timeout=timeout)
    except OSError as error:  # a timeout is one too
        let_through(error)
        raise BackendUnavailableError(
            f"connect: no scheduler answers at {address} within {timeout} s: {error}"
        ) from error
