"""Lookup tables: made, filled, looked into and changed."""

import numpy as np

from .base import array, tf, v1
from .program import Program
from .state import const

raw = tf.raw_ops

# (kind, raw op's keyword arguments)
STATIC = [("int32", "float64"), ("int32", "float32"), ("int32", "int32"), ("int32", "string"),
          ("int64", "float64"), ("int64", "float32"), ("int64", "int32"), ("int64", "int64"),
          ("int64", "string"), ("string", "bool"), ("string", "float64"), ("string", "float32"),
          ("string", "int32"), ("string", "int64"), ("string", "string")]
MUTABLE = [pair for pair in STATIC if pair not in (("int32", "string"), ("string", "string"))]


def keys_of(t):
    return array([b"a", b"", b"\xffz"], t) if t == "string" else array([3, -1, 40], t)


def other_keys(t):
    return array([[b"zz", b"a"], [b"", b"b"]], t) if t == "string" else array([[9, 3], [-1, 0]], t)


def values_of(t):
    if t == "string":
        return array([b"x", b"", b"long enough to be on the heap"], t)
    return array([True, False, True], t) if t == "bool" else array([1, 2, 3], t)


def default_of(t):
    if t == "string":
        return array(b"none", t)
    return array(t == "bool" or -7, t)


def table(op, key, value, name="table", **attrs):
    attrs = dict({"shared_name": "" if op.startswith("Anonymous") else name}, **attrs)
    if op.startswith("Anonymous"):
        del attrs["shared_name"]
    return getattr(raw, op)(key_dtype=tf.as_dtype(key), value_dtype=tf.as_dtype(value), name=name,
                            **attrs)


def find(handle, keys, default):
    return raw.LookupTableFindV2(table_handle=handle, keys=const(keys), default_value=const(default))


def size(handle):
    return raw.LookupTableSizeV2(table_handle=handle)


def export(handle, key, value):
    return list(raw.LookupTableExportV2(table_handle=handle, Tkeys=tf.as_dtype(key),
                                        Tvalues=tf.as_dtype(value)))


def placeholder(t, name):
    return v1.placeholder(tf.as_dtype(t), name=name)


def _static():
    op = "HashTableV2"
    for key, value in STATIC:
        p = Program(op, "%s_%s" % (key, value))
        with p:
            t = table(op, key, value)
            init = raw.InitializeTableV2(table_handle=t, keys=const(keys_of(key)),
                                         values=const(values_of(value)))
            found = find(t, other_keys(key), default_of(value))
            scalar = find(t, keys_of(key)[2], default_of(value))
            count = size(t)
        p.step(count, note="empty before it is initialized")
        p.step(found, error=True, note="not initialized")
        p.step(target=init)
        p.step([found, scalar, count])
        p.step(target=init, note="a second time changes nothing")
        p.record()
    p = Program(op, "errors")
    with p:
        t = table(op, "string", "int64")
        init = raw.InitializeTableV2(table_handle=t, keys=const(array([b"a", b"b"], "string")),
                                     values=const(array([1, 2], "int64")))
        again = raw.InitializeTableV2(table_handle=t, keys=const(array([b"a"], "string")),
                                      values=const(array([1], "int64")))
        keys, values = placeholder("string", "keys"), placeholder("int64", "values")
        insert = raw.LookupTableInsertV2(table_handle=t, keys=keys, values=values)
        importing = raw.LookupTableImportV2(table_handle=t, keys=keys, values=values)
        removing = raw.LookupTableRemoveV2(table_handle=t, keys=keys)
        exported = export(t, "string", "int64")
        count = size(t)
        wrong_key = raw.LookupTableFindV2(table_handle=t, keys=placeholder("int64", "numbers"),
                                          default_value=const(array(1, "int64")))
        found = raw.LookupTableFindV2(table_handle=t, keys=const(array([b"a", b"c"], "string")),
                                      default_value=placeholder("int64", "default"))
        default = p.graph.get_tensor_by_name("default:0")
        numbers = p.graph.get_tensor_by_name("numbers:0")
    feed = {keys: array([b"c"], "string"), values: array([3], "int64")}
    p.step(exported, error=True, note="exported before it is initialized")
    p.step(target=init)
    p.step(target=again, error=True, note="initialized with another number of keys")
    p.step(target=insert, feed=feed, error=True)
    p.step(target=importing, feed=feed, error=True)
    p.step(target=removing, feed={keys: feed[keys]}, error=True)
    p.step(wrong_key, feed={numbers: array([1], "int64")}, error=True, note="keys of another type")
    p.step(found, feed={default: array([1, 2, 3], "int64")}, error=True,
           note="a default of another shape")
    p.step([found, count], feed={default: array(9, "int64")})
    p.record()
    op = "InitializeTableV2"
    for name, keys, values, good in (
        ("same_twice", [b"a", b"b", b"a"], [1, 2, 1], True),
        ("different_twice", [b"a", b"b", b"a"], [1, 2, 3], False),
        ("lengths", [b"a", b"b"], [1, 2, 3], False),
        ("matrix", [[b"a"], [b"b"]], [[1], [2]], False),
        ("nothing", np.zeros((0,), object), np.zeros((0,), np.int64), False)):
        p = Program(op, name)
        with p:
            t = table("HashTableV2", "string", "int64")
            k, v = placeholder("string", "keys"), placeholder("int64", "values")
            init = raw.InitializeTableV2(table_handle=t, keys=k, values=v)
            count = size(t)
        p.step(target=init, feed={k: array(keys, "string"), v: array(values, "int64")},
               error=not good)
        if good:
            p.step(count)
        p.record()
    p = Program(op, "mutable")
    with p:
        t = table("MutableHashTableV2", "string", "int64")
        init = raw.InitializeTableV2(table_handle=t, keys=const(array([b"a"], "string")),
                                     values=const(array([1], "int64")))
    p.step(target=init, error=True, note="a mutable table has no initializer")
    p.record()
    p = Program(op, "types")
    with p:
        t = table("HashTableV2", "string", "int64")
        init = raw.InitializeTableV2(table_handle=t, keys=const(array([1], "int64")),
                                     values=const(array([1], "int64")))
    p.step(target=init, error=True)
    p.record()


def _names():
    op = "HashTableV2"
    p = Program(op, "shared_name")
    with p:
        a = table(op, "string", "int64", "a", shared_name="one")
        b = table(op, "string", "int64", "b", shared_name="one")
        other = table(op, "string", "int64", "c", shared_name="one", container="box")
        clash = table(op, "string", "int32", "d", shared_name="one")
        init = raw.InitializeTableV2(table_handle=a, keys=const(array([b"k"], "string")),
                                     values=const(array([5], "int64")))
        sizes = [size(a), size(b), size(other)]
        clashing = size(clash)
    p.step(target=init)
    p.step(sizes)
    p.step(clashing, error=True, note="the name is of a table of other types")
    p.record()
    p = Program(op, "own", note="without a name each node has its own, in all steps")
    with p:
        a = table(op, "string", "int64", "a", shared_name="")
        b = table(op, "string", "int64", "b", shared_name="")
        c = table(op, "string", "int64", "c", shared_name="", use_node_name_sharing=True)
        init = raw.InitializeTableV2(table_handle=a, keys=const(array([b"k"], "string")),
                                     values=const(array([5], "int64")))
        sizes = [size(a), size(b), size(c)]
    p.step(target=init)
    p.step(sizes)
    p.record()
    for op, value in (("AnonymousHashTable", "int64"), ("AnonymousMutableHashTable", "int64")):
        p = Program(op, "one_step", note="the table ends with its handle")
        with p:
            t = table(op, "string", value, "t")
            count = size(t)
        p.step(count)
        p.record()
    p = Program("AnonymousMutableHashTable", "used")
    with p:
        t = table("AnonymousMutableHashTable", "string", "int64", "t")
        insert = raw.LookupTableInsertV2(table_handle=t, keys=const(array([b"k", b"l"], "string")),
                                         values=const(array([5, 6], "int64")))
        with tf.control_dependencies([insert]):
            count = size(t)
            found = find(t, array([b"l", b"m"], "string"), array(0, "int64"))
    p.step([count, found])
    p.step([count, found])
    p.record()


def _mutable():
    op = "MutableHashTableV2"
    for key, value in MUTABLE:
        p = Program(op, "%s_%s" % (key, value))
        with p:
            t = table(op, key, value)
            k, v = keys_of(key), values_of(value)
            insert = raw.LookupTableInsertV2(table_handle=t, keys=const(k), values=const(v))
            change = raw.LookupTableInsertV2(table_handle=t, keys=const(k[:1]), values=const(v[1:2]))
            remove = raw.LookupTableRemoveV2(table_handle=t, keys=const(other_keys(key)))
            put = raw.LookupTableImportV2(table_handle=t, keys=const(k[1:2]), values=const(v[2:]))
            found = find(t, other_keys(key), default_of(value))
            count, content = size(t), export(t, key, value)
        p.step([found, count] + content, note="it begins empty")
        p.step(target=insert)
        p.step([found, count])
        p.step(target=change)
        p.step([found, count])
        p.step(target=remove)
        p.step([found, count] + content)
        p.step(target=put)
        p.step([found, count] + content)
        p.record()
    p = Program("LookupTableFindV2", "default_for_each")
    with p:
        t = table(op, "string", "int64")
        insert = raw.LookupTableInsertV2(table_handle=t, keys=const(array([b"a"], "string")),
                                         values=const(array([1], "int64")))
        found = find(t, array([b"b", b"a", b"c"], "string"), array([7, 8, 9], "int64"))
        bad = find(t, array([b"b", b"a", b"c"], "string"), array([7, 8], "int64"))
    p.step(target=insert)
    p.step(found)
    p.step(bad, error=True)
    p.record()
    p = Program("LookupTableFindV2", "default_for_each_static")
    with p:
        t = table("HashTableV2", "string", "int64")
        init = raw.InitializeTableV2(table_handle=t, keys=const(array([b"a"], "string")),
                                     values=const(array([1], "int64")))
        found = find(t, array([b"b", b"a", b"c"], "string"), array([7, 8, 9], "int64"))
    p.step(target=init)
    p.step(found)
    p.record()
    p = Program("LookupTableInsertV2", "twice_in_one")
    with p:
        t = table(op, "int64", "int64")
        insert = raw.LookupTableInsertV2(table_handle=t, keys=const(array([[1, 2], [1, 3]], "int64")),
                                         values=const(array([[10, 20], [11, 30]], "int64")))
        found = find(t, array([1, 2, 3], "int64"), array(0, "int64"))
    p.step(target=insert, note="keys of any shape; the last value of a key counts")
    p.step(found)
    p.record()
    p = Program("LookupTableInsertV2", "errors")
    with p:
        t = table(op, "int64", "int64")
        k, v = placeholder("int64", "keys"), placeholder("int64", "values")
        insert = raw.LookupTableInsertV2(table_handle=t, keys=k, values=v)
        wrong = raw.LookupTableInsertV2(table_handle=t, keys=k, values=placeholder("int32", "w"))
        w = p.graph.get_tensor_by_name("w:0")
    p.step(target=insert, feed={k: [1, 2], v: [1]}, error=True, note="lengths")
    p.step(target=insert, feed={k: [1, 2], v: [[1], [2]]}, error=True, note="shapes")
    p.step(target=wrong, feed={k: [1], w: [1]}, error=True, note="types")
    p.step(target=insert, feed={k: 1, v: 1}, note="scalars")
    p.record()
    op = "MutableHashTableOfTensorsV2"
    for key, value in (("int64", "float32"), ("string", "int64"), ("int64", "string")):
        p = Program(op, "%s_%s" % (key, value))
        with p:
            t = table(op, key, value, value_shape=[2])
            k = keys_of(key)
            v = np.stack([values_of(value), values_of(value)[::-1]], axis=1)
            insert = raw.LookupTableInsertV2(table_handle=t, keys=const(k), values=const(v))
            remove = raw.LookupTableRemoveV2(table_handle=t, keys=const(k[1:]))
            default = np.stack([default_of(value), values_of(value)[0]])
            found = find(t, other_keys(key), default)
            bad = find(t, other_keys(key), default[0])
            count, content = size(t), export(t, key, value)
        p.step(target=insert)
        p.step([found, count])
        p.step(bad, error=True, note="a default of one number")
        p.step(target=remove)
        p.step([found, count] + content)
        p.record()


def _references():
    """The forms of TensorFlow 1."""
    for op, key, value in (("HashTable", "string", "int64"), ("MutableHashTable", "int64", "float32")):
        p = Program(op, "reference")
        with p:
            t = table(op, key, value)
            k, v = const(keys_of(key)), const(values_of(value))
            if op == "HashTable":
                fill = raw.InitializeTable(table_handle=t, keys=k, values=v)
            else:
                fill = raw.LookupTableInsert(table_handle=t, keys=k, values=v)
            found = raw.LookupTableFind(table_handle=t, keys=const(other_keys(key)),
                                        default_value=const(default_of(value)))
            count = raw.LookupTableSize(table_handle=t)
        p.step(target=fill)
        p.step([found, count])
        p.record()


def generate():
    _static()
    _names()
    _mutable()
    _references()
