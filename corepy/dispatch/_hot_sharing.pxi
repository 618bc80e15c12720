# Loops over many elements, of which other threads take some.
# Included by _hot_compiled.pyx.
#
# Helpers that are awake join within some hundred nanoseconds. Those that sleep take 20 us and more
# to wake, so they are woken for work that takes much longer than that, and when large operations
# follow each other at once: then they are awake for the next ones. Nobody waits for a helper that
# has not come. What a loop takes for an element is measured as it runs.

cdef extern from *:
    """
    #include <time.h>
    #ifdef __linux__
    #include <sched.h>
    #endif
    #ifdef _MSC_VER
    #include <intrin.h>
    #endif

    static inline double corepy_now(void) {  /* seconds */
        struct timespec now;
    #ifdef CLOCK_MONOTONIC
        clock_gettime(CLOCK_MONOTONIC, &now);
    #else
        timespec_get(&now, TIME_UTC);
    #endif
        return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    }

    static inline int corepy_here(void) {  /* the processor */
    #ifdef __linux__
        return sched_getcpu();
    #else
        return 0;
    #endif
    }

    /* Copy past the caches to where a line of theirs begins; to be ended by `corepy_streamed`. */
    #if defined(__SSE2__) && !defined(_MSC_VER)
    #include <emmintrin.h>
    #define COREPY_STREAMS 1
    static inline void corepy_stream(char* into, const char* from, ptrdiff_t bytes) {
        ptrdiff_t i = 0;
        for (; i + 64 <= bytes; i += 64) {
            for (int k = 0; k < 64; k += 16) {
                _mm_stream_si128(
                    (__m128i*)(into + i + k), _mm_loadu_si128((const __m128i*)(from + i + k)));
            }
        }
        memcpy(into + i, from + i, bytes - i);
    }
    /* Bring what is read soon into the caches. */
    static inline void corepy_fetch(const char* from, ptrdiff_t bytes) {
        for (ptrdiff_t i = 0; i < bytes; i += 64) _mm_prefetch(from + i, _MM_HINT_T0);
    }
    /* And fetch meanwhile what is read next, of each operand so many bytes: as long as memory is
       written it is not read otherwise. */
    static inline void corepy_stream_and_fetch(
        char* into, const char* from, ptrdiff_t bytes,
        int count, char* const* next, const ptrdiff_t* sizes
    ) {
        ptrdiff_t each[4] = {0}, i, k;
        for (k = 0; k < count; k++) each[k] = (sizes[k] + bytes - 1) / bytes;
        for (i = 0; i + 64 <= bytes; i += 64) {
            corepy_stream(into + i, from + i, 64);
            for (k = 0; k < count; k++) corepy_fetch(next[k] + i * each[k], 64 * each[k]);
        }
        memcpy(into + bytes / 64 * 64, from + bytes / 64 * 64, bytes % 64);
    }
    static inline void corepy_streamed(void) { _mm_sfence(); }
    #else
    #define COREPY_STREAMS 0
    static inline void corepy_fetch(const char* from, ptrdiff_t bytes) {}
    static inline void corepy_stream(char* into, const char* from, ptrdiff_t bytes) {
        memcpy(into, from, bytes);
    }
    static inline void corepy_stream_and_fetch(
        char* into, const char* from, ptrdiff_t bytes,
        int count, char* const* next, const ptrdiff_t* sizes
    ) {
        memcpy(into, from, bytes);
    }
    static inline void corepy_streamed(void) {}
    #endif

    static inline void corepy_join(int* flags, int more) {
    #if defined(_MSC_VER)
        _InterlockedOr((volatile long*)flags, more);
    #else
        __atomic_fetch_or(flags, more, __ATOMIC_ACQ_REL);
    #endif
    }
    """
    double corepy_now() noexcept nogil
    int corepy_here() noexcept nogil
    bint COREPY_STREAMS
    void corepy_stream(char*, const char*, Py_ssize_t) noexcept nogil
    void corepy_stream_and_fetch(
        char*, const char*, Py_ssize_t, int, char**, const Py_ssize_t*
    ) noexcept nogil
    void corepy_fetch(const char*, Py_ssize_t) noexcept nogil
    void corepy_streamed() noexcept nogil
    void corepy_join(int*, int) noexcept nogil
    int feraiseexcept(int) noexcept nogil


ctypedef long long (*Enter)(
    long long, long long, long long, long long, long long
) noexcept nogil

#: Works on some of the rows of a piece of work, whatever rows are there.
ctypedef void (*Stretch)(Work*, npy_intp, npy_intp) noexcept nogil

cdef enum:
    ROW = 1024  # elements of a row where there are no others
    STRETCHES = 8  # of rows, for each thread
    WHOLE_OPERAND = 0  # how an operand stands beside the result
    ROW_OPERAND = 1  # the same row beside each row
    COLUMN_OPERAND = 2  # one element beside each row
    IN_A_ROW = 2  # operations after which helpers are woken for short ones

#: Seconds of work that are worth to be shared with a helper that is awake, and to wake one; of rest
#: after which an operation follows none; and of work after which somebody is asked for helpers.
cdef double SHARED = 4e-6
cdef double WOKEN = 40e-6
cdef double REST = 40e-6
cdef double ASKED = 5e-3


cdef struct Grid  # see _hot_grids.pxi

cdef struct Work:
    Stretch stretch
    npy_intp rows
    int flags  # that any thread has raised
    int failed  # whether any has met what it cannot do
    int count  # of operands, the result among them
    char* operands[4]
    npy_intp steps[4]  # bytes from element to element
    npy_intp set_steps[4]  # and from one that a flag selects to the next
    npy_intp size  # elements in all
    npy_intp length  # elements of a row
    npy_intp group  # columns that are reduced together
    npy_intp parts  # in which each thread's share is dealt out, if not in `STRETCHES`
    int forms[4]  # how operands stand beside the result
    Grid* grid  # where operands lie
    bint past_caches  # whether the result is written past the caches
    int types[2]  # NumPy's numbers of dtypes, of the operand and the result
    Slot* slot
    PyUFuncGenericFunction loop
    void* data


cdef object _find_helpers  # returns them, if they are worth it
cdef object _crew  # what the addresses below belong to
cdef Enter _enter = NULL
cdef Work* _shared_work = NULL
cdef long long* _watched = NULL
cdef long long _board, _job
cdef double _nap, _ended = 0.0, _alone = 0.0
cdef int _followed = 0, _processor = -2
cdef bint _rings  # whether a job wakes helpers
cdef bint _taken = False, _waited = False
cdef long long _jobs = 0


def helped_by(find):
    """As `corepy.dispatch._hot_python.helped_by`, and ask it when loops have run for a while."""
    global _find_helpers, _enter, _taken
    _find_helpers, _enter, _taken = find, NULL, False


def jobs_shared():
    """Return how many pieces of work other threads could join in."""
    return _jobs


cdef int _enlist(crew) except -1:
    global _crew, _enter, _shared_work, _watched, _board, _job, _nap, _processor, _rings
    entrance = crew.entrance
    _shared_work = <Work*><uintptr_t>entrance.room
    (<uintptr_t*><uintptr_t>entrance.function)[0] = <uintptr_t>&_stretch
    _watched = <long long*><uintptr_t>entrance.watched
    _board, _job, _nap, _processor = entrance.board, entrance.job, entrance.nap, -2
    _crew, _rings = crew, crew.rings
    _enter = <Enter><uintptr_t>entrance.run
    return 0


cdef int _do(Work* work, npy_intp size, double* pace) except -1:
    """Do a piece of work of some size without the interpreter's lock, and raise its flags.

    `pace` is what an element takes one thread in seconds, 0 if nobody knows; it is kept up to date.
    """
    cdef double start = corepy_now()
    cdef int threads = _threads_for(work, pace[0] * size, start)
    if threads > 1:
        return _do_together(work, threads, start)
    corepy_none_of_all()  # of before
    with nogil:
        work.stretch(work, 0, work.rows)
    # What has failed has left out some of the work.
    return 0 if work.failed else _did_alone(size, pace, start)


cdef int _did_alone(npy_intp size, double* pace, double start) except -1:
    """Take note of how long one thread has worked."""
    global _ended, _alone
    _ended = corepy_now()
    cdef double took = _ended - start
    # What was in no cache, or lost its processor, takes longer once.
    pace[0] = min(1.1 * pace[0], took / size) if pace[0] else took / size
    if _enter == NULL and _find_helpers is not None and took > SHARED:
        _alone += took
        if _alone > ASKED:
            _ask_for_helpers()
    return 0


cdef int _ask_for_helpers() except -1:
    global _alone
    cdef int flags = corepy_all_flags()
    spent, _alone = _alone, 0.0
    crew = _find_helpers(spent)
    # Several threads may have asked: once one has helpers, a job of theirs may be under way. And
    # the process may be about to end.
    if crew is not None and _enter == NULL and _find_helpers is not None:
        _enlist(crew)
    corepy_none_of_all()
    if flags:
        feraiseexcept(flags)
    return 0


cdef int _threads_for(Work* work, double seconds, double now) except -1:
    """Return how many threads share what takes one so many seconds."""
    global _followed, _processor
    if _enter == NULL or seconds < SHARED or work.rows < 2 or _taken:
        return 1
    _followed = _followed + 1 if now - _ended < REST else 0
    if seconds < WOKEN and _watched[0] == 0 and _followed < IN_A_ROW:
        return 1
    cdef int processor = corepy_here()
    if processor != _processor or not (_rings or _watched[0]):
        _crew.gather()
        _processor = processor
    cdef int threads = _crew.threads(1 + <long>min(seconds / SHARED, 1e3))
    # Another thread may have run meanwhile, and put its work where this one would be.
    return 1 if _taken or _enter == NULL else threads


cdef int _do_together(Work* work, int threads, double start) except -1:
    global _taken, _ended, _waited, _jobs
    cdef npy_intp parts = min(work.rows, (work.parts or STRETCHES) * <npy_intp>threads)
    cdef long long naps
    _shared_work[0] = work[0]
    _taken = True
    with nogil:
        naps = _enter(_board, _job, work.rows, parts, threads - 1) >> 1
    work.flags, work.failed = _shared_work.flags, _shared_work.failed
    _taken = False  # from here on another thread's work may be there
    _jobs += 1
    _ended = corepy_now()
    if naps or _waited:
        _waited = naps != 0
        _crew.judge(max(0.0, _ended - start - naps * _nap), naps * _nap)
    corepy_none_of_all()
    if work.flags:
        feraiseexcept(work.flags)
    return 0


cdef int _stretch(long long job, long long start, long long stop) noexcept nogil:
    """Do some rows of the work that is shared, and keep the flags that they raise."""
    cdef int flags
    corepy_none_of_all()
    _shared_work.stretch(_shared_work, <npy_intp>start, <npy_intp>stop)
    flags = corepy_all_flags()
    if flags:
        corepy_join(&_shared_work.flags, flags)
        corepy_none_of_all()
    return 0
