# Single numbers: the elements of an array one after the other, and what operators make of them.
# Included by _hot_compiled.pyx.

cdef extern from *:
    """
    #include <math.h>

    /* As NumPy's loops, which raise no flag beside NaN: `<` does. */
    static inline int corepy_compares_doubles(int how, double a, double b) {
        switch (how) {
        case Py_LT: return isless(a, b);
        case Py_LE: return islessequal(a, b);
        case Py_GT: return isgreater(a, b);
        case Py_GE: return isgreaterequal(a, b);
        case Py_EQ: return a == b;
        default: return a != b;
        }
    }

    static inline int corepy_compares_longs(int how, int64_t a, int64_t b) {
        switch (how) {
        case Py_LT: return a < b;
        case Py_LE: return a <= b;
        case Py_GT: return a > b;
        case Py_GE: return a >= b;
        case Py_EQ: return a == b;
        default: return a != b;
        }
    }

    enum {
        COREPY_NEGATE, COREPY_MAGNITUDE, COREPY_ADD, COREPY_SUBTRACT, COREPY_MULTIPLY,
        COREPY_DIVIDE, COREPY_FLOOR, COREPY_REMAINDER
    };

    /* Compute one number; 0 where that may raise a flag, which a loop is to find. Finite sums raise
       none, nor do products and quotients that are not tiny. */
    static inline int corepy_reckon_doubles(int how, double a, double b, double* into) {
        const double made = how == COREPY_NEGATE ? -a : how == COREPY_MAGNITUDE ? fabs(a)
            : how == COREPY_ADD ? a + b : how == COREPY_SUBTRACT ? a - b
            : how == COREPY_MULTIPLY ? a * b : a / b;
        *into = made;
        if (how > COREPY_DIVIDE || !isfinite(made)) return 0;
        if (how < COREPY_MULTIPLY) return 1;
        return (fabs(made) > DBL_MIN && isfinite(b)) || a == 0;
    }

    static inline int corepy_reckon_longs(int how, int64_t a, int64_t b, int64_t* into) {
        switch (how) {  /* they wrap around */
        case COREPY_NEGATE: *into = (int64_t)-(uint64_t)a; return 1;
        case COREPY_MAGNITUDE: *into = a < 0 ? (int64_t)-(uint64_t)a : a; return 1;
        case COREPY_ADD: *into = (int64_t)((uint64_t)a + (uint64_t)b); return 1;
        case COREPY_SUBTRACT: *into = (int64_t)((uint64_t)a - (uint64_t)b); return 1;
        case COREPY_MULTIPLY: *into = (int64_t)((uint64_t)a * (uint64_t)b); return 1;
        case COREPY_DIVIDE: return 0;
        }
        if (b <= 0) return 0;
        const int64_t rest = a % b;
        *into = how == COREPY_REMAINDER ? (rest < 0 ? rest + b : rest) : a / b - (rest < 0);
        return 1;
    }
    """
    int COREPY_NEGATE, COREPY_MAGNITUDE, COREPY_ADD, COREPY_SUBTRACT, COREPY_MULTIPLY, COREPY_DIVIDE
    int COREPY_FLOOR, COREPY_REMAINDER
    bint corepy_reckon_doubles(int, double, double, double*) noexcept
    bint corepy_reckon_longs(int, int64_t, int64_t, int64_t*) noexcept
    bint corepy_compares_doubles(int, double, double) noexcept
    bint corepy_compares_longs(int, int64_t, int64_t) noexcept


cdef inline Slot* _single_slot(int place, x1, x2) noexcept:
    """Find what is known of an operation on an array that is one number of 64 bits; or NULL."""
    cdef PyObject* x = <PyObject*>(x1 if type(x1) is _Array else x2)
    cdef Slot* slot
    if x.ob_type != <void*>_Array or not _is_array(<PyObject*>_native_of(x)):
        return NULL
    if PyArray_NDIM(_native_of(x)) != 0:
        return NULL
    slot = &(<Operand>x)._table.slots[place]
    if not slot.short or slot.type_num != NPY_DOUBLE and slot.type_num != NPY_INT64:
        return NULL
    return slot if slot.leasts[ALIKE] > 1 else NULL


cdef inline bint _read_single(int place, Slot* slot, x, double* into) except -1:
    """Read an operand that is one number of the slot's dtype, or one of Python's that fits."""
    cdef PyArrayObject* native
    cdef long whole
    if type(x) is not _Array:
        if not _whole(<PyObject*>x, &whole):
            return _scalar(slot, x, into)
        if slot.type_num == NPY_DOUBLE:
            into[0] = whole
        else:
            (<int64_t*>into)[0] = whole
        return True
    native = _native_of(<PyObject*>x)
    if &(<Operand>x)._table.slots[place] != slot or not _is_plain(<PyObject*>native):
        return False
    if PyArray_NDIM(native) != 0:
        return False
    memcpy(into, PyArray_DATA(native), sizeof(double))
    return True


cdef inline object _compared(str name, int place, int how, x1, x2):
    """Compare: single numbers here, for to call a loop takes as long as all the rest."""
    cdef double a[2]  # room for any
    cdef double b[2]
    cdef Slot* slot = _single_slot(place, x1, x2)
    if slot == NULL or not _read_single(place, slot, x1, a) or not _read_single(place, slot, x2, b):
        return _operator(name, place, x1, x2)
    cdef char holds
    if slot.type_num == NPY_DOUBLE:
        holds = corepy_compares_doubles(how, a[0], b[0])
    else:
        holds = corepy_compares_longs(how, (<int64_t*>a)[0], (<int64_t*>b)[0])
    return _single(slot, <Slots>slot.result, &holds)


cdef object _reckoned_alone(int place, int how, x1, x2):
    """Compute with single numbers, None where the loop has to."""
    cdef double a[2]
    cdef double b[2]
    cdef Slot* slot = _single_slot(place, x1, x2)
    cdef bint known
    if slot == NULL or not _read_single(place, slot, x1, a) or not _read_single(place, slot, x2, b):
        return None
    if slot.type_num == NPY_DOUBLE:
        known = corepy_reckon_doubles(how, a[0], b[0], a)
    else:
        known = corepy_reckon_longs(how, (<int64_t*>a)[0], (<int64_t*>b)[0], <int64_t*>a)
    return _single(slot, <Slots>slot.result, a) if known else None


cdef inline object _reckoned(str name, int place, int how, x1, x2):
    made = _reckoned_alone(place, how, x1, x2)
    return _operator(name, place, x1, x2) if made is None else made


cdef inline object _reckoned_of(str name, int place, int how, x):
    made = _reckoned_alone(place, how, x, x)
    return _unary(name, place, x) if made is None else made


@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class Elements:
    """The elements of a vector, or the rows of an array, one after the other."""

    cdef Operand x
    cdef Py_ssize_t at, stop

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.stop - self.at

    def __reduce__(self):
        return iter, (() if self.at >= self.stop else self.x[self.at :],)

    def __next__(self):
        cdef Py_ssize_t at = self.at
        if at >= self.stop:
            raise StopIteration
        cdef Operand x = self.x
        cdef Slot* slot = &x._table.slots[_GETITEM]
        cdef PyArrayObject* native
        self.at = at + 1
        native = _native_of(<PyObject*>x)  # which an assignment may have put another one for
        if not slot.short or not _is_array(<PyObject*>native) or PyArray_NDIM(native) != 1:
            return PyObject_GetItem(x, at)
        if at >= PyArray_DIMS(native)[0]:
            return PyObject_GetItem(x, at)
        return _single(
            slot, x._table, <char*>PyArray_DATA(native) + at * PyArray_STRIDES(native)[0]
        )


cdef object _elements(Operand x):
    """Iterate over the first dimension of an array of NumPy's; None of others."""
    cdef PyArrayObject* native = _native_of(<PyObject*>x)
    cdef Elements made
    if not _is_array(<PyObject*>native) or PyArray_NDIM(native) == 0:
        return None
    made = Elements.__new__(Elements)
    made.x, made.stop = x, PyArray_DIMS(native)[0]
    return made
