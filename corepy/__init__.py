"""One Array API namespace over the accelerators that already exist.

``xp = corepy.array_api`` is the Python array API standard, 2025.12. Each operation runs in a
library that this machine has, on the device where its operands live.
"""

import importlib as _importlib
import typing as _typing

from corepy import array_api, devices
from corepy._blas import tell
from corepy._cluster import connect
from corepy._dtypes import DType
from corepy._errors import (
    BackendError,
    BackendUnavailableError,
    CorepyError,
    DeviceMismatchError,
    FallbackError,
    FallbackWarning,
    InsufficientMemoryError,
    RouteWarning,
    UnsupportedOperationError,
)
from corepy._graphs import Graph, graph
from corepy._idle_threads import settle
from corepy._moving import pin_memory, to
from corepy._pools import share_memory_pool
from corepy._profile import Profile, Total, profile
from corepy._selection import (
    best_available_backend,
    init_backend,
    list_devices,
    select_backend,
    synchronize,
)
from corepy._streams import Event, Stream, stream
from corepy.array_api._array import Array
from corepy.backends._base import Backend, Capabilities
from corepy.devices import (
    Device,
    MemoryStats,
    OperationProperties,
    detect_devices,
    empty_cache,
    estimate_inference_memory,
    memory_info,
    memory_stats,
    set_memory_limit,
    set_memory_pool,
)
from corepy.dispatch import (
    BackendStatus,
    Explanation,
    Option,
    Record,
    Route,
    autocast,
    backend_priority,
    enable_tf32,
    explain,
    get_autocast,
    get_backend_priority,
    get_fallback,
    get_num_threads,
    get_offload,
    get_precision,
    get_tf32,
    is_reproducible,
    is_strict,
    offload,
    precision,
    register_backend,
    reproducible,
    routes,
    set_backend,
    set_backend_priority,
    set_fallback,
    set_num_threads,
    set_routes,
    strict,
    unregister_backend,
    usable_backends,
)
from corepy.dispatch import status as backend_status

if _typing.TYPE_CHECKING:
    from corepy import kernels as kernels
    from corepy import testing as testing

settle()
tell()

__version__ = "0.1.0"

#: Submodules that are imported on first use, for not every program needs them.
_LATER: _typing.Final = ("kernels", "testing")

__all__ = [
    "Array",
    "Backend",
    "BackendError",
    "BackendStatus",
    "BackendUnavailableError",
    "Capabilities",
    "CorepyError",
    "DType",
    "Device",
    "DeviceMismatchError",
    "Event",
    "Explanation",
    "FallbackError",
    "FallbackWarning",
    "Graph",
    "InsufficientMemoryError",
    "MemoryStats",
    "OperationProperties",
    "Option",
    "Profile",
    "Record",
    "Route",
    "RouteWarning",
    "Stream",
    "Total",
    "UnsupportedOperationError",
    "array_api",
    "autocast",
    "backend_priority",
    "backend_status",
    "best_available_backend",
    "connect",
    "detect_devices",
    "devices",
    "empty_cache",
    "enable_tf32",
    "estimate_inference_memory",
    "explain",
    "get_autocast",
    "get_backend_priority",
    "get_fallback",
    "get_num_threads",
    "get_offload",
    "get_precision",
    "get_tf32",
    "graph",
    "init_backend",
    "is_reproducible",
    "is_strict",
    "list_devices",
    "memory_info",
    "memory_stats",
    "offload",
    "pin_memory",
    "precision",
    "profile",
    "register_backend",
    "reproducible",
    "routes",
    "select_backend",
    "set_backend",
    "set_backend_priority",
    "set_fallback",
    "set_memory_limit",
    "set_memory_pool",
    "set_num_threads",
    "set_routes",
    "share_memory_pool",
    "stream",
    "strict",
    "synchronize",
    "to",
    "unregister_backend",
    "usable_backends",
]

if not _typing.TYPE_CHECKING:  # to type checkers every name would be one of the module

    def __getattr__(name):
        if name in _LATER:
            return _importlib.import_module(f"corepy.{name}")
        where = ""
        if name in array_api.__all__:
            where = ": the namespace of the standard is corepy.array_api"
        raise AttributeError(f"module 'corepy' has no attribute {name!r}{where}")

    def __dir__():
        return sorted({*globals(), *_LATER})
