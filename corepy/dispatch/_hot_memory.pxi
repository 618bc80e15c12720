# Making results, and using again what results of before were made of.
# Included by _hot_compiled.pyx.
#
# An `Array` and the small NumPy array in it take longer to make than to fill. So those that nothing
# refers to any more wait for the next result of their shape, as Python's own floats and tuples do.

cdef extern from *:
    """
    #if defined(Py_GIL_DISABLED) || defined(__SANITIZE_ADDRESS__)
    #define COREPY_WAITING 0  /* threads would take the same one, and sanitizers not see it end */
    #else
    #define COREPY_WAITING 256
    #endif
    #define COREPY_TYPES 16  /* the numbers of the standard's dtypes are below */
    #define COREPY_DIMENSIONS 4  /* of arrays that wait, at most */
    #define COREPY_SMALL 8192  /* bytes of one, at most */
    #define COREPY_SHELVES 64  /* on which they wait, by dtype and shape */
    #define COREPY_ALIKE 4  /* of one shelf, at most: of all, two million bytes */

    static PyTypeObject* corepy_class = NULL;  /* that of the results */
    static destructor corepy_base_dealloc = NULL;
    static PyObject* corepy_arrays[COREPY_WAITING + 1];
    static int corepy_array_count = 0;

    typedef struct {
        PyObject* arrays[COREPY_ALIKE];
        int count;
    } corepy_shelf;
    static corepy_shelf corepy_shelves[COREPY_SHELVES];

    /* Arrays of no dimension wait each in its Array, as many as programs take out of a vector at a
       time. */
    static struct {
        PyObject* arrays[COREPY_WAITING + 1];
        int count;
    } corepy_singles[COREPY_TYPES];
    static PyObject* corepy_held(PyObject*);  /* what an Array holds */
    static PyObject* corepy_taken_out(PyObject*);  /* the same; the Array waits without it */

    static inline corepy_shelf* corepy_shelf_of(int type_num, int ndim, const npy_intp* dims) {
        npy_uint64 key = (npy_uint64)(type_num * (COREPY_DIMENSIONS + 1) + ndim);
        for (int i = 0; i < ndim; i++) key = key * 0x100000001B3u + (npy_uint64)dims[i];
        key = (key * 0x9E3779B97F4A7C15u) >> 32 & (COREPY_SHELVES - 1);
        return &corepy_shelves[key];
    }

    static inline int corepy_is_such(
        PyObject* array, PyArray_Descr* descr, int ndim, const npy_intp* dims
    ) {
        PyArrayObject_fields* x = (PyArrayObject_fields*)array;
        if (x->descr != descr || x->nd != ndim) return 0;
        for (int i = 0; i < ndim; i++) {
            if (x->dimensions[i] != dims[i]) return 0;
        }
        return 1;
    }

    /* Say whether a small array can be used again: nobody else refers to it, and it is as NumPy
       makes them. */
    static inline int corepy_is_reusable(PyObject* native) {
        const int usual = NPY_ARRAY_CARRAY | NPY_ARRAY_OWNDATA;
        PyArrayObject_fields* x = (PyArrayObject_fields*)native;
        if (!COREPY_WAITING || Py_REFCNT(native) != 1 || x->nd > COREPY_DIMENSIONS
            || (x->flags & ~NPY_ARRAY_F_CONTIGUOUS) != usual || x->base != NULL
            || x->weakreflist != NULL || (unsigned)x->descr->type_num >= COREPY_TYPES
            || x->mem_handler != PyDataMem_DefaultHandler) {
            return 0;
        }
        npy_intp bytes = PyDataType_ELSIZE(x->descr);
        for (int i = x->nd; i-- > 0;) {
            if (x->strides[i] != bytes) return 0;
            bytes *= x->dimensions[i];
            if (bytes > COREPY_SMALL) return 0;
        }
        return bytes != 0;
    }

    /* Keep it for the next result, in the place of one of another shape if there are some. */
    static inline void corepy_keep(PyObject* native) {
        PyArrayObject_fields* x = (PyArrayObject_fields*)native;
        corepy_shelf* shelf = corepy_shelf_of(x->descr->type_num, x->nd, x->dimensions);
        PyObject* gone = NULL;
        if (shelf->count) {
            PyObject* last = shelf->arrays[shelf->count - 1];
            if (!corepy_is_such(last, x->descr, x->nd, x->dimensions)) {
                shelf->count--;
                gone = last;
            } else if (shelf->count == COREPY_ALIKE) {
                Py_DECREF(native);
                return;
            }
        }
        shelf->arrays[shelf->count++] = native;
        Py_XDECREF(gone);
    }

    /* Views wait without what they look at, by their number of dimensions. */
    static corepy_shelf corepy_views[COREPY_DIMENSIONS + 1];

    static inline int corepy_is_plain_view(PyObject* native) {
        const int unusual = NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEBACKIFCOPY;
        PyArrayObject_fields* x = (PyArrayObject_fields*)native;
        return COREPY_WAITING && Py_REFCNT(native) == 1 && 0 < x->nd && x->nd <= COREPY_DIMENSIONS
            && !(x->flags & unusual) && x->base != NULL && x->weakreflist == NULL
            && x->_buffer_info == NULL && x->mem_handler == NULL;
    }

    static inline void corepy_keep_view(PyObject* native) {
        PyArrayObject_fields* x = (PyArrayObject_fields*)native;
        PyObject* base = x->base;
        corepy_shelf* shelf = &corepy_views[x->nd];
        if (shelf->count == COREPY_ALIKE) {
            Py_DECREF(native);
            return;
        }
        x->base = NULL;
        x->data = NULL;
        shelf->arrays[shelf->count++] = native;
        Py_DECREF(base);  /* last: that may run a finalizer */
    }

    /* Make an array in the memory of another one. */
    static inline PyObject* corepy_new_view(
        PyArrayObject* base, int ndim, npy_intp* dims, npy_intp* strides, char* data
    ) {
        PyArray_Descr* descr = PyArray_DESCR(base);
        int flags = PyArray_FLAGS(base) & NPY_ARRAY_WRITEABLE;
        Py_INCREF(base);  /* first: a dtype's end may run a finalizer; stolen by the last line */
        PyObject* made;
        if (0 < ndim && ndim <= COREPY_DIMENSIONS && corepy_views[ndim].count) {
            made = corepy_views[ndim].arrays[--corepy_views[ndim].count];
            PyArrayObject_fields* x = (PyArrayObject_fields*)made;
            if (x->descr != descr) {
                PyArray_Descr* before = x->descr;
                Py_INCREF(descr);
                x->descr = descr;
                Py_DECREF(before);
            }
            for (int i = 0; i < ndim; i++) {
                x->dimensions[i] = dims[i];
                x->strides[i] = strides[i];
            }
            x->data = data;
            x->flags = flags;
            PyArray_UpdateFlags(
                (PyArrayObject*)made,
                NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
        } else {
            Py_INCREF(descr);  /* stolen by the next line */
            made = PyArray_NewFromDescr(
                &PyArray_Type, descr, ndim, dims, strides, data, flags, NULL);
        }
        if (made == NULL) {
            Py_DECREF(base);
        } else if (PyArray_SetBaseObject((PyArrayObject*)made, (PyObject*)base) < 0) {
            Py_CLEAR(made);
        }
        return made;
    }

    static inline void corepy_clear_shelf(corepy_shelf* shelf) {
        while (shelf->count) Py_DECREF(shelf->arrays[--shelf->count]);
    }

    static void corepy_end(PyObject* array) {  /* of one that waits */
        PyTypeObject* type = Py_TYPE(array);
        Py_SET_REFCNT(array, 1);
        corepy_base_dealloc(array);
        Py_DECREF(type);
    }

    static void corepy_clear_singles(void) {
        for (int i = 0; i < COREPY_TYPES; i++) {
            while (corepy_singles[i].count) {
                corepy_end(corepy_singles[i].arrays[--corepy_singles[i].count]);
            }
        }
    }

    static inline int corepy_keep_single(PyObject* array, int type_num) {
        if (corepy_singles[type_num].count == COREPY_WAITING) return 0;
        corepy_singles[type_num].arrays[corepy_singles[type_num].count++] = array;
        return 1;
    }

    /* Return an Array that waits with a number of a dtype in it, NULL if there is none. */
    static inline PyObject* corepy_waiting_single(PyArray_Descr* descr) {
        const unsigned type_num = (unsigned)descr->type_num;
        if (type_num >= COREPY_TYPES || corepy_singles[type_num].count == 0) return NULL;
        PyObject* array = corepy_singles[type_num].arrays[corepy_singles[type_num].count - 1];
        Py_SET_REFCNT(array, 1);
        if (((PyArrayObject_fields*)corepy_held(array))->descr != descr) {
            Py_SET_REFCNT(array, 0);
            return NULL;
        }
        corepy_singles[type_num].count--;
        return array;
    }

    static void corepy_let_go(void) {
        for (int i = 0; i < COREPY_SHELVES; i++) corepy_clear_shelf(&corepy_shelves[i]);
        corepy_clear_singles();
        for (int i = 0; i <= COREPY_DIMENSIONS; i++) corepy_clear_shelf(&corepy_views[i]);
    }

    /* Make an array with arbitrary values. */
    static inline PyObject* corepy_new_array(PyArray_Descr* descr, int ndim, npy_intp* dims) {
        if (ndim == 0) {
            PyObject* waiting = corepy_waiting_single(descr);
            if (waiting != NULL) return corepy_taken_out(waiting);
        } else if (ndim <= COREPY_DIMENSIONS && (unsigned)descr->type_num < COREPY_TYPES) {
            corepy_shelf* shelf = corepy_shelf_of(descr->type_num, ndim, dims);
            if (shelf->count
                && corepy_is_such(shelf->arrays[shelf->count - 1], descr, ndim, dims)) {
                return shelf->arrays[--shelf->count];
            }
        }
        Py_INCREF(descr);  /* stolen by the next line */
        PyObject* made =
            PyArray_NewFromDescr(&PyArray_Type, descr, ndim, dims, NULL, NULL, 0, NULL);
        /* NumPy has other words for what passes all memory, as sizes beside a 0 may. */
        if (made == NULL && PyErr_ExceptionMatches(PyExc_ValueError)) PyErr_NoMemory();
        return made;
    }

    static PyObject* corepy_capsule = NULL;  /* of the pool of host memory */
    static Py_ssize_t* corepy_pooled_from = NULL;  /* bytes */

    static void corepy_borrow(PyObject* capsule, size_t least) {
        corepy_capsule = Py_NewRef(capsule);
        corepy_pooled_from = (Py_ssize_t*)least;
    }

    /* Make an array with arbitrary values in the pool's memory. NumPy's own way to it, to set an
       allocator for the thread and back again, takes longer than all the rest. */
    static PyObject* corepy_new_pooled(PyArray_Descr* descr, int ndim, npy_intp* dims) {
        npy_intp bytes = PyArray_OverflowMultiplyList(dims, ndim);
        if (bytes < 0 || bytes > NPY_MAX_INTP / PyDataType_ELSIZE(descr)) return PyErr_NoMemory();
        bytes *= PyDataType_ELSIZE(descr);
        if (corepy_capsule == NULL || bytes < *corepy_pooled_from) {
            return corepy_new_array(descr, ndim, dims);
        }
        PyDataMem_Handler* pool =
            (PyDataMem_Handler*)PyCapsule_GetPointer(corepy_capsule, "mem_handler");
        if (pool == NULL) return NULL;
        void* memory = pool->allocator.malloc(pool->allocator.ctx, bytes);
        if (memory == NULL) return PyErr_NoMemory();
        Py_INCREF(descr);  /* stolen by the next line */
        PyObject* made = PyArray_NewFromDescr(
            &PyArray_Type, descr, ndim, dims, NULL, memory, NPY_ARRAY_CARRAY, NULL);
        if (made == NULL) {
            pool->allocator.free(pool->allocator.ctx, memory, bytes);
            return NULL;
        }
        ((PyArrayObject_fields*)made)->mem_handler = Py_NewRef(corepy_capsule);
        ((PyArrayObject_fields*)made)->flags |= NPY_ARRAY_OWNDATA;
        return made;
    }

    /* The same, in recycled memory for as many elements as matter. */
    static PyObject* corepy_new_large(
        PyArray_Descr* descr, int ndim, npy_intp* dims, npy_intp many
    ) {
        npy_intp size = PyArray_OverflowMultiplyList(dims, ndim);  /* less than 0 where it does */
        if (0 <= size && size < many) return corepy_new_array(descr, ndim, dims);
        return corepy_new_pooled(descr, ndim, dims);
    }

    /* The same, None where there is no memory. */
    static PyObject* corepy_new_if_any(
        PyArray_Descr* descr, int ndim, npy_intp* dims, npy_intp many
    ) {
        PyObject* made = corepy_new_large(descr, ndim, dims, many);
        if (made == NULL && PyErr_ExceptionMatches(PyExc_MemoryError)) {
            PyErr_Clear();
            return Py_NewRef(Py_None);
        }
        return made;
    }

    /* Takes out what an Array holds; 1 where it waits as it is. */
    static int corepy_empty(PyObject*);

    static void corepy_dealloc(PyObject* self) {
        PyTypeObject* type = Py_TYPE(self);
        if (PyType_IS_GC(type)) PyObject_GC_UnTrack(self);
        if (type == corepy_class && COREPY_WAITING
            && *(PyObject**)((char*)self + type->tp_weaklistoffset) == NULL) {
            if (corepy_empty(self)) return;
            if (corepy_array_count < COREPY_WAITING) {
                corepy_arrays[corepy_array_count++] = self;
                return;
            }
        }
        /* As `subtype_dealloc` does for classes without attributes of their own. */
        corepy_base_dealloc(self);
        Py_DECREF(type);
    }

    static void corepy_recycle(PyTypeObject* cls, PyTypeObject* base) {
        while (corepy_array_count) {  /* of a class that was bound before */
            corepy_end(corepy_arrays[--corepy_array_count]);
        }
        corepy_clear_singles();
        corepy_class = cls;
        corepy_base_dealloc = base->tp_dealloc;
        cls->tp_dealloc = corepy_dealloc;
    }

    static inline PyObject* corepy_array(PyTypeObject* cls, PyObject* nothing) {
        if (cls == corepy_class && corepy_array_count) {
            PyObject* array = corepy_arrays[--corepy_array_count];
            Py_SET_REFCNT(array, 1);
            return array;
        }
        /* The base has nothing that Python's collector looks at; CPython gives each class of
           Python's a place among what it looks through all the same. */
        PyObject* array = cls->tp_new(cls, nothing, NULL);
        if (array != NULL && PyType_IS_GC(cls)) PyObject_GC_UnTrack(array);
        return array;
    }
    """
    void corepy_recycle(type, type)
    object corepy_array(type, tuple)
    bint corepy_is_reusable(PyObject*) noexcept
    void corepy_keep(PyObject*) noexcept
    bint corepy_is_plain_view(PyObject*) noexcept
    void corepy_keep_view(PyObject*) noexcept
    object _view "corepy_new_view" (PyArrayObject*, int, npy_intp*, npy_intp*, char*)
    bint corepy_keep_single(PyObject*, int) noexcept
    PyObject* corepy_waiting_single(PyArray_Descr*) noexcept
    void corepy_let_go() noexcept
    object corepy_new_array(PyArray_Descr*, int, npy_intp*)
    object corepy_new_large(PyArray_Descr*, int, npy_intp*, npy_intp)
    object corepy_new_if_any(PyArray_Descr*, int, npy_intp*, npy_intp)
    void corepy_borrow(object, size_t)


_lent = lender()
if _lent is not None:  # there is a pool of memory for large results
    corepy_borrow(_lent[0], _lent[1])


cdef inline object _new_large(PyArray_Descr* descr, int ndim, npy_intp* dims):
    """Make an array with arbitrary values: in recycled memory for as many elements as matter."""
    return corepy_new_large(descr, ndim, dims, SHORT)


cdef inline object _new_if_any(PyArray_Descr* descr, int ndim, npy_intp* dims):
    """As `_new_large`, None where there is no memory: for what is called by operators too.

    The entry has what is kept for later freed, and tries again. So does the function where a short
    way of functions alone has none.
    """
    return corepy_new_if_any(descr, ndim, dims, SHORT)


cdef inline object _new(PyArray_Descr* descr, int ndim, npy_intp* dims):
    """Make an array with arbitrary values."""
    return corepy_new_array(descr, ndim, dims)


def let_go():
    """As `corepy.dispatch._hot_python.let_go`."""
    corepy_let_go()


cdef bint _empty "corepy_empty" (object array) noexcept:
    """Take out what an `Array` without references holds; True where it waits as it is."""
    cdef PyObject* native = <PyObject*>(<Operand>array)._native
    cdef bint whole = _is_array(native) and corepy_is_reusable(native)
    cdef bint view = not whole and _is_array(native) and corepy_is_plain_view(native)
    (<Operand>array)._table = None  # first: that may run a finalizer
    if whole and PyArray_NDIM(<PyArrayObject*>native) == 0:
        if corepy_keep_single(<PyObject*>array, PyArray_TYPE(<PyArrayObject*>native)):
            return True
        whole = False
    if whole or view:
        Py_INCREF(<object>native)
    (<Operand>array)._native = None
    if whole:
        corepy_keep(native)
    elif view:
        corepy_keep_view(native)
    return False


cdef PyObject* _held "corepy_held" (PyObject* array) noexcept:
    return <PyObject*>(<Operand>array)._native


cdef PyObject* _taken_out "corepy_taken_out" (PyObject* array) noexcept:
    cdef PyObject* native = <PyObject*>(<Operand>array)._native
    Py_INCREF(<object>native)
    (<Operand>array)._native = None
    Py_XDECREF(array)
    return native


cdef inline object _single(Slot* slot, Slots table, const void* element):
    """Make an `Array` of no dimension that holds one element of a slot's results."""
    cdef PyObject* waiting = corepy_waiting_single(slot.descr)
    if waiting == NULL:
        native = _new(slot.descr, 0, NULL)
        memcpy(_data(native), element, slot.size_out)
        return _make(native, table)
    made = corepy_take(waiting)
    (<Operand>made)._table = table
    memcpy(_data((<Operand>made)._native), element, slot.size_out)
    return made
