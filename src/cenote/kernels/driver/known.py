"""Calls of functions on arrays that have been prepared, found and run in native code: the whole of a second call.

`cenote_function` is a function of CPython (METH_FASTCALL), of four arguments: a tuple of arrays, a tuple of other
arguments, `out`, `threads`. It looks for a known call of this signature (`runtime.layouts.KNOWN`), makes the result and
runs the kernel on the arrays; whatever it does not know, or cannot do at once, it leaves to Python, with the same
arguments. A call of 16 numbers takes 0.5 us; through Python's dictionaries and ctypes it took 2.5.

    find      known call whose arrays have the same dtypes, extents and strides, and whose arguments are the same
              objects; if there is none, whose arguments have the same bytes in marshal's form
    is_ready  nobody else is using its record, and `out` is right and lies apart from the inputs
    run       the result, the addresses of the arrays' data, the kernel

Read directly are objects' types and the fields of NumPy's arrays, at places that `runtime.objects` has tested; all
else goes through functions that CPython exports. No Python code runs while the known calls are walked. Later it may
(memory for the result may start the garbage collector, and a signal handler may run): the known call is marked as busy
and its owner is held meanwhile.

Short kernels run with the GIL: to give it up and take it back costs 0.1 us where nobody waits, and up to 5 ms where a
thread computes in Python. What is not done after 50 ms goes on without the GIL, after signals have been handled.
"""

from __future__ import annotations

from cenote.codegen.native import Bool, Bytes, Int32, Int64, Native, Words, native
from cenote.codegen.values import BOOL, I32, I64, U8, Pointer, Value
from cenote.kernels.driver.call import call_on
from cenote.kernels.driver.records import WordsByName
from cenote.runtime.layouts import ARRAY, CALL, CALL_ARRAYS, FUNCTION, KNOWN
from cenote.runtime.objects import ALIGNED_AND_WRITEABLE, ARRAY_FIELDS, TYPE_FIELD

_ARRAYS, _ARGUMENTS, _OUT, _THREADS, _COUNT = range(5)
_MARSHAL_VERSION = 2
_EQUAL = 2  # Py_EQ


@native
def cenote_function(f: Native, self: Bytes, given: Words, count: Int64) -> Bytes:
    """Run a known call, or leave the call to Python. `self`: a tuple whose first item is an array, the function's
    record; the others are kept alive by it."""
    words = f.load_pointer(_item(f, self, f.integer(0)) + ARRAY_FIELDS.data)
    function = WordsByName(FUNCTION, words)
    with f.when(count.differs(_COUNT)):
        f.return_now(_slow(f, function, given, count))
    for place in (_ARRAYS, _ARGUMENTS):
        with f.when(_type(f, f.load_pointer(given + place, U8)).differs(function.tuple.load())):
            f.return_now(_slow(f, function, given, count))
    known = f.cursor(find(f, words, given, f.null(U8)))
    with f.when(f.is_null(known.at)), f.when(function.first.load().differs(0)):
        said = said_of(f, given)
        with f.unless(f.is_null(said)):
            known.put(find(f, words, given, said))
            f.external("Py_DecRef", said)
    with f.unless(f.is_null(known.at)), f.when(is_ready(f, words, known.at, given)):
        f.return_now(run(f, words, known.at, given))
    return _slow(f, function, given, count)


def _slow(f: Native, function: WordsByName, given: Pointer, count: Value) -> Pointer:
    """Emit the call of the function in Python."""
    return f.external_address(
        "PyObject_Vectorcall", f.load_pointer(function.slow, U8), given, count, f.null()
    )


# ---- objects --------------------------------------------------------------------------------------------------------


def _item(f: Native, of: Pointer, index: Value) -> Pointer:
    """Emit the item of a tuple; the reference is borrowed."""
    return f.external_address("PyTuple_GetItem", of, index)


def _type(f: Native, object: Pointer) -> Value:
    return (object + TYPE_FIELD).cast(I64).load()


def _number(f: Native, pointer: Pointer) -> Value:
    return f.assign(f"ptrtoint ptr {pointer.text} to i64", I64, 1)


def _no(f: Native) -> Value:
    return f.constant(BOOL, 0)


def _yes(f: Native) -> Value:
    return f.constant(BOOL, 1)


@native
def said_of(f: Native, given: Words) -> Bytes:
    """Return a new reference to the bytes of arguments and threads, or null where marshal does not write them."""
    parts = f.external_address(
        "PyTuple_Pack", f.integer(2), f.load_pointer(given + _ARGUMENTS), f.load_pointer(given + _THREADS)
    )
    with f.when(f.is_null(parts)):
        f.external("PyErr_Clear")
        f.return_now(f.null(U8))
    said = f.external_address("PyMarshal_WriteObjectToString", parts, f.constant(I32, _MARSHAL_VERSION))
    f.external("Py_DecRef", parts)
    with f.when(f.is_null(said)):
        f.external("PyErr_Clear")
    return said


# ---- looking for a known call ---------------------------------------------------------------------------------------


@native
def find(f: Native, function: Words, given: Words, said: Bytes) -> Words:
    """Return the known call of a signature, or null. `said`: what arguments and threads must be; null: they must be
    the same objects."""
    words = WordsByName(FUNCTION, function)
    at, arrays = f.cursor(f.load_pointer(words.first)), f.load_pointer(given + _ARRAYS, U8)
    with f.loop() as loop:
        known = at.at
        loop.leave_if(f.is_null(known))
        with f.when(are_of(f, known, arrays, words.array.load())):
            for by_identity in f.either(f.is_null(said)):
                if by_identity:
                    f.return_if(has_same_arguments(f, known, given), known)
                else:
                    ours = f.load_pointer(WordsByName(KNOWN, known).said, U8)
                    equal = f.external(
                        "PyObject_RichCompareBool", ours, said, f.constant(I32, _EQUAL), result=I32
                    )
                    f.return_if(equal.equals(1), known)
        at.put(f.load_pointer(WordsByName(KNOWN, known).next))
    return f.null()


@native
def are_of(f: Native, known: Words, arrays: Bytes, type: Int64) -> Bool:
    """Return whether arrays have the dtypes, extents and strides of a known call's inputs."""
    count = WordsByName(KNOWN, known).given.load()
    f.return_if(f.external("PyTuple_Size", arrays, result=I64).differs(count), _no(f))
    for index in f.range(0, count):
        like = known + KNOWN.size + index * ARRAY.size
        with f.unless(is_of(f, like, _item(f, arrays, index), type)):
            f.return_now(_no(f))
    return _yes(f)


@native
def is_of(f: Native, like: Words, array: Bytes, type: Int64) -> Bool:
    """Return whether an object is an array of this dtype, of these extents and strides, or the object asked for."""
    wanted = WordsByName(ARRAY, like)
    axes = wanted.axes.load()
    f.return_if(axes < 0, _number(f, array).equals(wanted.shape.load()))
    f.return_if(_type(f, array).differs(type), _no(f))
    f.return_if((array + ARRAY_FIELDS.dtype).cast(I64).load().differs(wanted.dtype.load()), _no(f))
    f.return_if((array + ARRAY_FIELDS.axes).cast(I32).load().to(I64).differs(axes), _no(f))
    extents, steps = (f.load_pointer(array + field) for field in (ARRAY_FIELDS.extents, ARRAY_FIELDS.strides))
    numbers = f.load_pointer(wanted.extents)
    for axis in f.range(0, axes):
        f.return_if(extents.load(axis).differs(numbers.load(axis)), _no(f))
        f.return_if(steps.load(axis).differs((numbers + axes).load(axis)), _no(f))
    return _yes(f)


@native
def has_same_arguments(f: Native, known: Words, given: Words) -> Bool:
    """Return whether the arguments are the very objects of a known call, which cannot change."""
    record = WordsByName(KNOWN, known)
    ours, theirs = f.load_pointer(record.arguments, U8), f.load_pointer(given + _ARGUMENTS, U8)
    f.return_if(f.is_null(ours), _no(f))
    f.return_if((given + _THREADS).load().differs(record.threads.load()), _no(f))
    f.return_if(_number(f, ours).equals(_number(f, theirs)), _yes(f))
    count = f.external("PyTuple_Size", ours, result=I64)
    f.return_if(f.external("PyTuple_Size", theirs, result=I64).differs(count), _no(f))
    for index in f.range(0, count):
        a, b = _number(f, _item(f, ours, index)), _number(f, _item(f, theirs, index))
        f.return_if(a.differs(b), _no(f))
    return _yes(f)


# ---- running it -----------------------------------------------------------------------------------------------------


@native
def is_ready(f: Native, function: Words, known: Words, given: Words) -> Bool:
    """Return whether a known call can run now: its record is free, and `out` is None or, for one
    result, right."""
    record, words = WordsByName(KNOWN, known), WordsByName(FUNCTION, function)
    f.return_if(record.busy.load().differs(0), _no(f))
    out, arrays = f.load_pointer(given + _OUT, U8), f.load_pointer(given + _ARRAYS, U8)
    f.return_if(_number(f, out).equals(words.none.load()), _yes(f))
    f.return_if(record.results.load().differs(1), _no(f))
    count = record.given.load()
    result = known + KNOWN.size + count * ARRAY.size
    f.return_if(~is_of(f, result, out, words.array.load()), _no(f))
    flags = (out + ARRAY_FIELDS.flags).cast(I32).load() & ALIGNED_AND_WRITEABLE
    f.return_if(flags.differs(ALIGNED_AND_WRITEABLE), _no(f))
    begin = (out + ARRAY_FIELDS.data).cast(I64).load()
    end = begin + WordsByName(ARRAY, result).nbytes.load()
    for index in f.range(0, count):
        like, x = WordsByName(ARRAY, known + KNOWN.size + index * ARRAY.size), _item(f, arrays, index)
        with f.unless(like.axes.load() < 0):
            start = (x + ARRAY_FIELDS.data).cast(I64).load()
            is_met = (start < end) & (begin < start + like.nbytes.load())
            is_it = _number(f, x).equals(_number(f, out)) & like.in_place.load().differs(0)
            f.return_if(is_met & ~is_it, _no(f))
    return _yes(f)


@native
def run(f: Native, function: Words, known: Words, given: Words) -> Bytes:
    """Return a new reference to the result, or null with an exception."""
    record, objects = WordsByName(KNOWN, known), f.array(CALL_ARRAYS)
    owner, inputs, results = f.load_pointer(record.owner, U8), record.inputs.load(), record.results.load()
    record.busy.store(f.integer(1))
    f.external("Py_IncRef", owner)
    out, arrays = f.load_pointer(given + _OUT, U8), f.load_pointer(given + _ARRAYS, U8)
    place = f.variable(f.integer(0))
    for index in f.range(0, record.given.load()):
        with f.unless(WordsByName(ARRAY, known + KNOWN.size + index * ARRAY.size).axes.load() < 0):
            f.store_pointer(_item(f, arrays, index), objects + place.value)
            place.value += 1
    made, failure = objects + inputs, f.variable(f.constant(I32, 0))
    for is_fresh in f.either(_number(f, out).equals(WordsByName(FUNCTION, function).none.load())):
        if is_fresh:
            failure.value = make_results(f, known, made)
        else:
            f.external("Py_IncRef", out)
            f.store_pointer(out, made)
    with f.when(failure.value.equals(0)):
        failure.value = work(f, known, objects)
    record.busy.store(f.integer(0))
    result = handed(f, made, results, failure.value)
    f.external("Py_DecRef", owner)
    return result


@native
def make_results(f: Native, known: Words, made: Words) -> Int32:
    """Make arrays for the results. Return 0, or -1 with an exception; arrays that were not made are null."""
    record, failure = WordsByName(KNOWN, known), f.variable(f.constant(I32, 0))
    empty, first = f.load_pointer(record.empty, U8), record.given.load()
    for index in f.range(0, record.results.load()):
        f.store_pointer(f.null(), made + index)
        with f.when(failure.value.equals(0)):
            like = WordsByName(ARRAY, known + KNOWN.size + (first + index) * ARRAY.size)
            array = f.external_address("PyObject_Vectorcall", empty, like.shape, f.integer(2), f.null())
            f.store_pointer(array, made + index)
            with f.when(f.is_null(array)):
                failure.value = f.constant(I32, -1)
    return failure.value


@native
def handed(f: Native, made: Words, results: Int64, failure: Int32) -> Bytes:
    """Return one result as it is, several as a tuple, which takes over their references. Null after a failure."""
    with f.when(failure.equals(0)):
        f.return_if(results.equals(1), f.load_pointer(made, U8))
        several = f.external_address("PyTuple_New", results)
        with f.unless(f.is_null(several)):
            for index in f.range(0, results):
                array = f.load_pointer(made + index, U8)
                f.external("PyTuple_SetItem", several, index, array, result=I32)
            f.return_now(several)
    for index in f.range(0, results):
        f.external("Py_DecRef", f.load_pointer(made + index, U8))  # which takes null, too
    return f.null(U8)


@native
def work(f: Native, known: Words, objects: Words) -> Int32:
    """Run the kernel to its end. Return 0, or -1 with the exception of a signal handler."""
    record = WordsByName(KNOWN, known)
    call = f.load_pointer(record.record)
    is_short, left = f.variable(record.short.load()), f.variable(f.constant(I32, 0))
    with f.loop() as loop:
        for keeps in f.either(is_short.value.differs(0)):
            state = None if keeps else f.external_address("PyEval_SaveThread")
            left.value = call_on(f, call, objects)
            if state is not None:
                f.external("PyEval_RestoreThread", state)
        loop.leave_if(left.value.equals(0))
        is_short.value = f.integer(0)
        failure = f.external("PyErr_CheckSignals", result=I32)
        with f.when(failure.differs(0)):
            WordsByName(CALL, call).begin.store(f.integer(0))
            f.return_now(failure)
    return left.value
