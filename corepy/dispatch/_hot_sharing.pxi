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
    void corepy_join(int*, int) noexcept nogil
    int feraiseexcept(int) noexcept nogil


ctypedef long long (*Enter)(
    long long, long long, long long, long long, long long
) noexcept nogil

cdef enum:
    ROW = 1024  # elements of a row of a job
    STRETCHES = 8  # of rows, for each thread
    IN_A_ROW = 2  # operations after which helpers are woken for short ones

#: Seconds of work that are worth to be shared with a helper that is awake, and to wake one; of rest
#: after which an operation follows none; and of work after which somebody is asked for helpers.
cdef double SHARED = 4e-6
cdef double WOKEN = 40e-6
cdef double REST = 40e-6
cdef double ASKED = 5e-3


cdef struct Work:  # what a job holds
    PyUFuncGenericFunction loop
    void* data
    npy_intp size
    npy_intp steps[3]
    char* operands[3]
    int count
    int flags  # that any thread has raised


cdef object _find_helpers  # returns them, if they are worth it
cdef object _crew  # what the addresses below belong to
cdef Enter _enter = NULL
cdef Work* _work = NULL
cdef long long* _watched = NULL
cdef long long _board, _job
cdef double _nap, _ended = 0.0, _alone = 0.0
cdef int _followed = 0, _processor = -2
cdef bint _taken = False, _waited = False
cdef long long _jobs = 0


def helped_by(find):
    """As `corepy.dispatch._hot_python.helped_by`, and ask it when loops have run for a while."""
    global _find_helpers, _enter, _taken
    _find_helpers, _enter, _taken = find, NULL, False


def jobs_shared():
    """Return how many operations other threads could join in."""
    return _jobs


cdef int _enlist(crew) except -1:
    global _crew, _enter, _work, _watched, _board, _job, _nap, _processor
    entrance = crew.entrance
    _work = <Work*><uintptr_t>entrance.room
    (<uintptr_t*><uintptr_t>entrance.function)[0] = <uintptr_t>&_stretch
    _watched = <long long*><uintptr_t>entrance.watched
    _board, _job, _nap, _processor = entrance.board, entrance.job, entrance.nap, -2
    _crew = crew
    _enter = <Enter><uintptr_t>entrance.run
    return 0


cdef inline bint _runs(Slot* slot, char** args, int count, npy_intp size, npy_intp* steps) except -1:
    """Call an elementwise loop; False if its result is not to be used."""
    if size < SHORT or not slot.shares:
        return _calls(slot, args, size, steps)
    return _runs_many(slot, args, count, size, steps)


cdef bint _runs_many(Slot* slot, char** args, int count, npy_intp size, npy_intp* steps) except -1:
    global _ended, _alone
    cdef double start = corepy_now(), took
    cdef int threads = _threads_for(slot.pace * size, start)
    if threads > 1:
        _run_together(slot, args, count, size, steps, threads, start)
        return _is_clean(size)
    corepy_none_of_all()  # of before
    with nogil:
        slot.loop(args, &size, steps, slot.data)
    _ended = corepy_now()
    took = _ended - start
    # What was in no cache, or lost its processor, takes longer once.
    slot.pace = min(1.1 * slot.pace, took / size) if slot.pace else took / size
    if _enter == NULL and _find_helpers is not None and took > SHARED:
        _alone += took
        if _alone > ASKED:
            took, _alone = _alone, 0.0
            crew = _find_helpers(took)
            if crew is not None:
                _enlist(crew)
    return _is_clean(size)


cdef int _threads_for(double seconds, double now) except -1:
    """Return how many threads share what takes one so many seconds."""
    global _followed, _processor
    if _enter == NULL or seconds < SHARED or _taken:
        return 1
    _followed = _followed + 1 if now - _ended < REST else 0
    if seconds < WOKEN and _watched[0] == 0 and _followed < IN_A_ROW:
        return 1
    cdef int place = corepy_here()
    if place != _processor:
        _crew.gather()
        _processor = place
    return _crew.threads(1 + <long>min(seconds / SHARED, 1e3))


cdef int _run_together(
    Slot* slot,
    char** args,
    int count,
    npy_intp size,
    npy_intp* steps,
    int threads,
    double start,
) except -1:
    """Call a loop in so many threads, and raise the flags that it has raised in any."""
    global _taken, _ended, _waited, _jobs
    cdef npy_intp rows = (size + ROW - 1) // ROW
    cdef npy_intp parts = min(rows, STRETCHES * <npy_intp>threads)
    cdef long long naps
    cdef int i
    cdef Work* work = _work
    work.loop, work.data, work.size, work.count, work.flags = slot.loop, slot.data, size, count, 0
    for i in range(count):
        work.operands[i], work.steps[i] = args[i], steps[i]
    _taken = True
    with nogil:
        naps = _enter(_board, _job, rows, parts, threads - 1) >> 1
    _taken = False
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
    """Call a loop on some rows of elements, and keep the flags that it has raised."""
    cdef Work* work = _work
    cdef npy_intp first = <npy_intp>start * ROW
    cdef npy_intp size = min(<npy_intp>stop * ROW, work.size) - first
    cdef char* operands[3]
    cdef int i
    for i in range(work.count):
        operands[i] = work.operands[i] + first * work.steps[i]
    corepy_none_of_all()
    work.loop(operands, &size, work.steps, work.data)
    i = corepy_all_flags()
    if i:
        corepy_join(&work.flags, i)
        corepy_none_of_all()
    return 0
