# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Recycled host memory for large results: NumPy's allocator, while a callable of corepy runs.

The system clears each page of new memory when it is first touched, which takes longer than most
elementwise operations. So large blocks are kept for the next result when their array is gone. They
are handed out by NumPy's own means (NEP 49): an array gives its memory back when nothing refers to
it any more, neither a view, nor a buffer, nor another library's array that was made from it by
DLPack, each of which holds a reference to the array. No block is reused before that.

Blocks begin at multiples of 64 bytes, so that JAX shares them too, and lie in huge pages where the
system offers them. `corepy.devices._pool` has the functions for users.
"""

import os

from cpython.pycapsule cimport PyCapsule_New
from cpython.pythread cimport (
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_release_lock,
    PyThread_type_lock,
    WAIT_LOCK,
)
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset, strcpy

__all__ = ["SOURCE", "least", "limit", "lender", "recycling", "release", "statistics"]


cdef extern from *:
    """
    #ifndef COREPY_SOURCE
    #define COREPY_SOURCE ""
    #endif
    #define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
    #define NPY_TARGET_VERSION NPY_2_1_API_VERSION
    #define PY_ARRAY_UNIQUE_SYMBOL corepy_pool_array_api
    """
    const char* COREPY_SOURCE


#: SHA-256 of the file that this was compiled from.
SOURCE = COREPY_SOURCE.decode()


cdef extern from "numpy/arrayobject.h":
    int _import_array() except -1
    ctypedef struct PyDataMemAllocator:
        void* ctx
        void* (*malloc)(void*, size_t) noexcept nogil
        void* (*calloc)(void*, size_t, size_t) noexcept nogil
        void* (*realloc)(void*, void*, size_t) noexcept nogil
        void (*free)(void*, void*, size_t) noexcept nogil
    ctypedef struct PyDataMem_Handler:
        char name[127]
        unsigned char version
        PyDataMemAllocator allocator


# ---------------------------------------------------------------------------- the system's memory

cdef extern from *:
    """
    #if defined(__unix__) || defined(__APPLE__)
    #include <sys/mman.h>
    #include <unistd.h>
    #ifndef MAP_ANONYMOUS
    #define MAP_ANONYMOUS MAP_ANON
    #endif
    #define COREPY_HUGE ((size_t)2 << 20)

    /* Returns cleared memory, in huge pages from two of them on. */
    static void* corepy_map(size_t size) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);  /* 16 or 64 KiB on some ARM machines */
        size = (size + page - 1) / page * page;
        size_t extra = size >= 2 * COREPY_HUGE ? COREPY_HUGE : 0;
        char* base = mmap(NULL, size + extra, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) return NULL;
        if (extra) {
            size_t before = -(size_t)base & (COREPY_HUGE - 1);
            if (before) munmap(base, before);
            base += before;
            if (extra - before) munmap(base + size, extra - before);
    #ifdef MADV_HUGEPAGE
            madvise(base, size, MADV_HUGEPAGE);
    #endif
        }
        return base;
    }
    static void corepy_unmap(void* base, size_t size) { munmap(base, size); }
    #else
    static void* corepy_map(size_t size) { return calloc(1, size); }
    static void corepy_unmap(void* base, size_t size) { (void)size; free(base); }
    #endif
    """
    void* corepy_map(size_t) nogil
    void corepy_unmap(void*, size_t) nogil


cdef enum:
    LINE = 64
    PAGE = 4096
    MOST_BLOCKS = 64
    SLACK = 16777216  # bytes that may be reserved beyond what was in use at once
    CLEARED = 1048576  # bytes of which less are cleared sooner than the system maps new pages

cdef struct Block:  # stands before the memory of an array
    char* base
    size_t mapped  # 0 where the C library gave it
    size_t capacity

cdef struct Statistics:
    size_t allocated, allocated_peak, cached, recycled_blocks, new_blocks, released

cdef Statistics counts
cdef size_t most = 0  # bytes that may wait
cdef Block* waiting[MOST_BLOCKS]  # the one that waits longest first
cdef int waiters = 0
cdef PyThread_type_lock lock = PyThread_allocate_lock()


def _forget_lock():
    """Make a new lock: another thread may have held it when the process was forked."""
    global lock
    lock = PyThread_allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)


cdef inline void enter() noexcept nogil:
    PyThread_acquire_lock(lock, WAIT_LOCK)


cdef inline void leave() noexcept nogil:
    PyThread_release_lock(lock)


cdef inline Block* block_of(void* memory) noexcept nogil:
    return <Block*>(<char*>memory - LINE)


cdef inline void* memory_of(Block* block) noexcept nogil:
    return <char*>block + LINE


cdef void take_out(int place) noexcept nogil:
    """Remove a block from those that wait."""
    global waiters
    cdef int i
    counts.cached -= waiting[place].capacity
    waiters -= 1
    for i in range(place, waiters):
        waiting[i] = waiting[i + 1]


cdef void give_back(Block* block) noexcept nogil:
    """Return a block that nobody waits for to the system."""
    counts.released += block.capacity
    corepy_unmap(block.base, block.mapped)


cdef void shrink(size_t target) noexcept nogil:
    """Give the blocks that wait longest back until no more than `target` bytes wait."""
    cdef Block* oldest
    while waiters and counts.cached > target:
        oldest = waiting[0]
        take_out(0)
        give_back(oldest)


cdef size_t bound(size_t size) noexcept nogil:
    """Return how much may be reserved when `size` more bytes are in use."""
    cdef size_t used = counts.allocated + size
    cdef size_t peak = max(used, counts.allocated_peak)
    return peak + peak // 10 + SLACK


cdef Block* recycled(size_t size) noexcept nogil:
    """Return the smallest block that fits, NULL where a new one is better.

    Of several the one that was used last: it may still be in the caches.
    """
    cdef int place, best = -1
    for place in range(waiters):
        if waiting[place].capacity >= size and (
            best < 0 or waiting[place].capacity <= waiting[best].capacity
        ):
            best = place
    if best < 0:
        return NULL
    cdef Block* found = waiting[best]
    # One that is much too large is taken only where it would have to be given back otherwise.
    if found.capacity > size + size // 4 and (
        counts.allocated + counts.cached + size <= bound(size)
    ):
        return NULL
    take_out(best)
    return found


cdef Block* fresh(size_t size) noexcept nogil:
    """Map a new block of whole pages, and give others back first if too much would be reserved."""
    cdef size_t target = bound(size) - counts.allocated - size
    shrink(target)
    cdef size_t mapped = size + PAGE + LINE
    cdef char* base = <char*>corepy_map(mapped)
    if base == NULL and counts.cached:  # the system has no more: what waits may be enough
        shrink(0)
        base = <char*>corepy_map(mapped)
    if base == NULL:
        return NULL
    # Memory begins with a page: a processor that has just stored at some place in a page waits
    # before it loads from the same place in another one. NumPy's own arrays begin 16 bytes later,
    # and so loads from them stay ahead of the stores.
    cdef char* memory = base + LINE  # where the block stands, however the C library aligns
    memory += (PAGE - <uintptr_t>memory % PAGE) % PAGE
    cdef Block* block = block_of(memory)
    block.base, block.mapped, block.capacity = base, mapped, base + mapped - memory
    return block


cdef void* allocate(size_t size, bint clear) noexcept nogil:
    cdef Block* block = NULL
    cdef char* base
    if size < <size_t>corepy_large:
        base = <char*>malloc(size + 2 * LINE)
        if base == NULL:
            return NULL
        block = <Block*>(base + (LINE - <uintptr_t>base % LINE) % LINE)
        block.base, block.mapped, block.capacity = base, 0, size
        if clear:
            memset(memory_of(block), 0, size)
        return memory_of(block)
    size = (size + PAGE - 1) // PAGE * PAGE
    enter()
    if not clear or size < CLEARED:
        block = recycled(size)
    if block != NULL:
        counts.recycled_blocks += 1
    else:
        block = fresh(size)
        if block == NULL:
            leave()
            return NULL
        counts.new_blocks += 1
        clear = False  # new memory is
    counts.allocated += block.capacity
    counts.allocated_peak = max(counts.allocated_peak, counts.allocated)
    leave()
    if clear:
        memset(memory_of(block), 0, size)
    return memory_of(block)


cdef void* pool_malloc(void* context, size_t size) noexcept nogil:
    return allocate(size, False)


cdef void* pool_calloc(void* context, size_t count, size_t size) noexcept nogil:
    if size and count > (<size_t>-1) // size:
        return NULL
    return allocate(count * size, True)


cdef void pool_free(void* context, void* memory, size_t size) noexcept nogil:
    if memory == NULL:
        return
    cdef Block* block = block_of(memory)
    if block.mapped == 0:
        free(block.base)
        return
    enter()
    counts.allocated -= block.capacity
    if block.capacity > most:
        give_back(block)
    else:
        if waiters == MOST_BLOCKS:
            shrink(counts.cached - 1)
        shrink(most - block.capacity)
        put_in(block)
    leave()


cdef void put_in(Block* block) noexcept nogil:
    global waiters
    waiting[waiters] = block
    waiters += 1
    counts.cached += block.capacity


cdef void* pool_realloc(void* context, void* memory, size_t size) noexcept nogil:
    if memory == NULL:
        return pool_malloc(context, size)
    cdef size_t capacity = block_of(memory).capacity
    if capacity >= size and block_of(memory).mapped:
        return memory
    cdef void* moved = pool_malloc(context, size)
    if moved != NULL:
        memcpy(moved, memory, min(size, capacity))
        pool_free(context, memory, capacity)
    return moved


cdef PyDataMem_Handler handler
strcpy(handler.name, b"corepy")
handler.version = 1
handler.allocator.ctx = NULL
handler.allocator.malloc = pool_malloc
handler.allocator.calloc = pool_calloc
handler.allocator.realloc = pool_realloc
handler.allocator.free = pool_free

cdef object capsule = PyCapsule_New(&handler, b"mem_handler", NULL)


# ---------------------------------------------------------------------------- callables

cdef extern from *:
    """
    #include <structmember.h>
    /* A callable in whose calls with large operands NumPy takes memory from the pool. In C, because
       Cython's objects are not called by the protocol without tuples, and these are on the way of
       small operations too. */
    typedef struct {
        PyObject_HEAD
        vectorcallfunc vectorcall;
        PyObject* native;
        PyObject* capsule;
    } CorepyRecycling;

    static Py_ssize_t corepy_large = 65536;  /* bytes: of less the C library takes care */

    static int corepy_is_large(PyObject* argument) {
        if (PyArray_Check(argument)) {
            return PyArray_NBYTES((PyArrayObject*)argument) >= corepy_large;
        }
        if (PyLong_CheckExact(argument)) {
            int overflow;
            return PyLong_AsLongAndOverflow(argument, &overflow) >= corepy_large / 8 || overflow;
        }
        if (PyTuple_CheckExact(argument) || PyList_CheckExact(argument)) {
            double product = 1;  /* of a shape */
            Py_ssize_t i, size = PySequence_Fast_GET_SIZE(argument);
            PyObject** items = PySequence_Fast_ITEMS(argument);
            if (size > 64) return 1;
            for (i = 0; i < size; i++) {
                if (PyLong_CheckExact(items[i])) product *= PyLong_AsDouble(items[i]);
                else if (PyArray_Check(items[i])) {
                    if (PyArray_NBYTES((PyArrayObject*)items[i]) >= corepy_large) return 1;
                }
            }
            if (PyErr_Occurred()) { PyErr_Clear(); return 1; }  /* beyond a double's range */
            return product >= corepy_large / 8;
        }
        return 0;
    }

    static PyObject* corepy_recycling_call(PyObject* self, PyObject* const* args, size_t nargsf,
                                           PyObject* names) {
        CorepyRecycling* own = (CorepyRecycling*)self;
        Py_ssize_t i, count = PyVectorcall_NARGS(nargsf);
        for (i = 0; i < count && i < 3; i++) {
            if (corepy_is_large(args[i])) {
                PyObject *before, *after, *result;
                PyObject *type, *value, *traceback;
                before = PyDataMem_SetHandler(own->capsule);
                if (before == NULL) return NULL;
                result = PyObject_Vectorcall(own->native, args, nargsf, names);
                if (result == NULL) PyErr_Fetch(&type, &value, &traceback);
                after = PyDataMem_SetHandler(before);
                Py_DECREF(before);
                if (after == NULL) {
                    if (result == NULL) {
                        Py_XDECREF(type); Py_XDECREF(value); Py_XDECREF(traceback);
                    }
                    Py_XDECREF(result);
                    return NULL;
                }
                Py_DECREF(after);
                if (result == NULL) PyErr_Restore(type, value, traceback);
                return result;
            }
        }
        return PyObject_Vectorcall(own->native, args, nargsf, names);
    }

    static PyObject* corepy_recycling_getattr(PyObject* self, PyObject* name) {
        PyObject* found = PyObject_GenericGetAttr(self, name);
        if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
            found = PyObject_GetAttr(((CorepyRecycling*)self)->native, name);
        }
        return found;
    }

    static void corepy_recycling_dealloc(PyObject* self) {
        PyTypeObject* type = Py_TYPE(self);
        Py_DECREF(((CorepyRecycling*)self)->native);
        Py_DECREF(((CorepyRecycling*)self)->capsule);
        type->tp_free(self);
        Py_DECREF(type);
    }

    static PyMemberDef corepy_recycling_members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(CorepyRecycling, vectorcall), READONLY, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    static PyType_Slot corepy_recycling_slots[] = {
        {Py_tp_call, (void*)PyVectorcall_Call},
        {Py_tp_getattro, (void*)corepy_recycling_getattr},
        {Py_tp_dealloc, (void*)corepy_recycling_dealloc},
        {Py_tp_members, corepy_recycling_members},
        {Py_tp_doc, (void*)"A callable whose large results lie in recycled memory."},
        {0, NULL},
    };
    static PyType_Spec corepy_recycling_spec = {
        "corepy.devices._host_pool.Recycling", sizeof(CorepyRecycling), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        corepy_recycling_slots,
    };
    static PyObject* corepy_recycling_type(void) {
        return PyType_FromSpec(&corepy_recycling_spec);
    }
    static PyObject* corepy_recycling_new(PyObject* type, PyObject* native, PyObject* capsule) {
        CorepyRecycling* self =
            (CorepyRecycling*)((PyTypeObject*)type)->tp_alloc((PyTypeObject*)type, 0);
        if (self == NULL) return NULL;
        self->vectorcall = corepy_recycling_call;
        self->native = Py_NewRef(native);
        self->capsule = Py_NewRef(capsule);
        return (PyObject*)self;
    }
    """
    Py_ssize_t corepy_large
    object corepy_recycling_type()
    object corepy_recycling_new(object, object, object)


cdef object Recycling = None


def recycling(native):
    """Return a callable that calls another one, NumPy taking memory for it from the pool.

    Only where one of the first three operands is large, or a shape that is; its attributes are
    those of the other.
    """
    global Recycling
    if Recycling is None:
        _import_array()
        Recycling = corepy_recycling_type()
    return corepy_recycling_new(Recycling, native, capsule)


def lender():
    """Return what makes arrays in C: the allocator's capsule, and from how many bytes it counts.

    The latter as the address of a ``Py_ssize_t``.
    """
    return capsule, <uintptr_t>&corepy_large


# ---------------------------------------------------------------------------- for users


def least(Py_ssize_t size):
    """Let results of so many bytes and more come from the pool; for tests."""
    global corepy_large
    corepy_large = size


def limit(size_t size):
    """Let at most so many bytes wait."""
    global most
    enter()
    most = size
    shrink(size)
    leave()


def release():
    """Give all blocks that wait back to the system; return their bytes."""
    enter()
    cdef size_t before = counts.cached
    shrink(0)
    leave()
    return before


def statistics():
    """Return the figures that `corepy.memory_stats` shows."""
    enter()
    cdef Statistics now = counts
    cdef int blocks = waiters
    cdef size_t size = most
    leave()
    return {
        "allocated_bytes": now.allocated,
        "peak_allocated_bytes": now.allocated_peak,
        "cached_bytes": now.cached,
        "cached_blocks": blocks,
        "recycled_blocks": now.recycled_blocks,
        "new_blocks": now.new_blocks,
        "released_bytes": now.released,
        "limit_bytes": size,
    }
