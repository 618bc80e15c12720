# Making results, and using again what results of before were made of.
# Included by _hot_compiled.pyx.
#
# An `Array` and the NumPy array of one element in it take longer to make than to fill. So those
# that nothing refers to any more wait for the next result, as Python's own floats and tuples do.

cdef extern from *:
    """
    #if defined(Py_GIL_DISABLED) || defined(__SANITIZE_ADDRESS__)
    #define COREPY_WAITING 0  /* threads would take the same one, and sanitizers not see it end */
    #else
    #define COREPY_WAITING 64
    #endif
    #define COREPY_TYPES 16  /* the numbers of the standard's dtypes are below */

    static PyTypeObject* corepy_class = NULL;  /* that of the results */
    static destructor corepy_base_dealloc = NULL;
    static PyObject* corepy_arrays[COREPY_WAITING + 1];
    static int corepy_array_count = 0;
    static PyObject* corepy_numbers[COREPY_TYPES];  /* one of each dtype */

    /* Say whether an array of one element can be used again: nobody else refers to it, and it is as
       it was made. */
    static int corepy_is_number(PyObject* native) {
        const int usual = NPY_ARRAY_CARRAY | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_OWNDATA;
        PyArrayObject_fields* x = (PyArrayObject_fields*)native;
        return Py_REFCNT(native) == 1 && x->nd == 0 && x->flags == usual && x->base == NULL
            && x->weakreflist == NULL && (unsigned)x->descr->type_num < COREPY_TYPES
            && corepy_numbers[x->descr->type_num] == NULL;
    }

    /* Keep it for the next result. */
    static void corepy_keep_number(PyObject* native) {
    #if COREPY_WAITING
        corepy_numbers[PyArray_TYPE((PyArrayObject*)native)] = native;
    #else
        Py_DECREF(native);
    #endif
    }

    /* Make an array with arbitrary values. */
    static inline PyObject* corepy_new_array(PyArray_Descr* descr, int ndim, npy_intp* dims) {
        if (ndim == 0 && (unsigned)descr->type_num < COREPY_TYPES) {
            PyObject* found = corepy_numbers[descr->type_num];
            if (found != NULL && PyArray_DESCR((PyArrayObject*)found) == descr) {
                corepy_numbers[descr->type_num] = NULL;
                return found;
            }
        }
        Py_INCREF(descr);  /* stolen by the next line */
        return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, dims, NULL, NULL, 0, NULL);
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
        npy_intp bytes = PyDataType_ELSIZE(descr) * PyArray_MultiplyList(dims, ndim);
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

    static void corepy_empty(PyObject*);  /* takes out what an Array holds */

    static void corepy_dealloc(PyObject* self) {
        PyTypeObject* type = Py_TYPE(self);
        if (PyType_IS_GC(type)) PyObject_GC_UnTrack(self);
        if (type == corepy_class && corepy_array_count < COREPY_WAITING
            && *(PyObject**)((char*)self + type->tp_weaklistoffset) == NULL) {
            corepy_empty(self);
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
            PyObject* array = corepy_arrays[--corepy_array_count];
            PyTypeObject* type = Py_TYPE(array);
            Py_SET_REFCNT(array, 1);
            corepy_base_dealloc(array);
            Py_DECREF(type);
        }
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
    bint corepy_is_number(PyObject*)
    void corepy_keep_number(PyObject*)
    object corepy_new_array(PyArray_Descr*, int, npy_intp*)
    object corepy_new_pooled(PyArray_Descr*, int, npy_intp*)
    void corepy_borrow(object, size_t)


cdef bint _borrows = False


cdef object _pooled(PyArray_Descr* descr, int ndim, npy_intp* dims):
    """Make an array with arbitrary values, which recycled memory holds if it is large."""
    global _borrows
    if not _borrows:
        from corepy.devices._pool import lender

        found = lender()
        if found is not None:
            corepy_borrow(found[0], found[1])
        _borrows = True
    return corepy_new_pooled(descr, ndim, dims)


cdef void _empty "corepy_empty" (object array) noexcept:
    """Take out what an `Array` holds, whose last reference is gone."""
    cdef PyObject* native = <PyObject*>(<Operand>array)._native
    if _is_array(native) and corepy_is_number(native):
        Py_INCREF(<object>native)
        (<Operand>array)._native = None
        corepy_keep_number(native)
    else:
        (<Operand>array)._native = None
    (<Operand>array)._table = None
