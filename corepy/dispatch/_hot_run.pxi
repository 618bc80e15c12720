# Running one operation that has no shorter way: the entry called at once.
# Included by _hot_compiled.pyx.

cdef enum:
    MOST_ARGUMENTS = 8


cdef object _run_way(Function self, PyObject** args, Py_ssize_t count, PyObject* names):
    """Call the entry of the first operand's table; None unless every argument goes as it is."""
    cdef PyObject* given[MOST_ARGUMENTS]
    cdef PyObject* entry
    cdef PyObject* value
    cdef Operand first
    cdef Slots table
    cdef Py_ssize_t total = count, i
    held = []  # another thread may put other memory into an Array meanwhile
    if names != NULL:
        total += PyTuple_GET_SIZE(names)
    if count < 2 or total > MOST_ARGUMENTS or args[1].ob_type != <void*>_Array:
        return None
    first = <Operand>args[1]
    table = first._table
    if len(_learning) and table.repeats:  # a short way in Python wants to be told what ran
        return None
    entry = PyDict_GetItemWithError(table, <object>args[0])
    if entry == NULL:
        return None
    for i in range(1, total):
        value = args[i]
        if value.ob_type == <void*>_Array:
            if not _share(<Operand>value, first):
                return None
            held.append((<Operand>value)._native)
            value = <PyObject*>(<Operand>value)._native
        elif value.ob_type == <void*>_DType:
            value = PyDict_GetItemWithError(table.siblings, <object>value)
            if value == NULL:
                return None
            value = <PyObject*>(<Slots>value).native_dtype
        elif value.ob_type == <void*>&PyTuple_Type:
            if not _holds_plain(value):
                return None
        elif not _goes_as_it_is(value):
            return None
        given[i] = value
    native, result = <tuple>entry
    try:
        made = PyObject_Vectorcall(<PyObject*>native, given + 1, count - 1, names)
    except Exception as error:
        made = _recover_way(args, given, count, names, table, native, error)
    if result is not None and type(made) is type(first._native):
        return _make(made, <Slots>result)
    return _wrap(made, table, result)


cdef object _recover_way(
    PyObject** args,
    PyObject** given,
    Py_ssize_t count,
    PyObject* names,
    Slots table,
    native,
    error,
):
    """Hand over what an entry was called with, as Python has it."""
    operands, plain = _operands_of(args + 1, count - 1), _operands_of(given + 1, count - 1)
    params = _params_of(given, count, names)
    return _recover(<object>args[0], table, operands, error, native, *plain, **params)


cdef inline bint _goes_as_it_is(PyObject* value) noexcept:
    return (
        <object>value is None
        or value.ob_type == <void*>&PyLong_Type
        or value.ob_type == <void*>&PyBool_Type
        or value.ob_type == <void*>&PyFloat_Type
        or value.ob_type == <void*>&PyUnicode_Type
    )


cdef bint _holds_plain(PyObject* values) noexcept:
    cdef Py_ssize_t i
    for i in range(PyTuple_GET_SIZE(values)):
        if not _goes_as_it_is(PyTuple_GET_ITEM(values, i)):
            return False
    return True
