"""Variables by reference and by resource: make, assign, read, scatter, gather."""

import numpy as np

from . import optable, running, values
from .base import array, tf, v1
from .harness import rng
from .program import Program

raw = tf.raw_ops


def data(op, name, shape, t="float32", low=-3, high=3):
    return values.ordinary(rng(op, name), shape, t, low, high)


def const(a, name=None):
    a = np.asarray(a)
    t = "string" if a.dtype == object else a.dtype
    return tf.constant(a.tolist() if a.dtype == object else a,
                       name=name,
                       dtype=tf.string if t == "string" else None,
                       shape=a.shape)


def op_of(x):
    return x if isinstance(x, tf.Operation) else x.op


def reference(t, shape, name="v", op="VariableV2"):
    """A reference variable, not initialized."""
    g = tf.compat.v1.get_default_graph()
    return g.create_op(op, [], [tf.as_dtype(t)._as_ref],
                       name=name,
                       attrs={
                           "dtype": running.attr_value(_def("type"), t),
                           "shape": running.attr_value(_def("shape"), shape)
                       }).outputs[0]


class _def:  # the part of an attribute's definition that harness._attr looks at

    def __init__(self, kind):
        self.type = kind


def ref_op(op, ref, *inputs, **attrs):
    """An op on a reference; returns its operation."""
    g = tf.compat.v1.get_default_graph()
    definition = running.op_def_registry.get(op)
    kinds = {a.name: a for a in definition.attr}
    first = list(ref) if isinstance(ref, (list, tuple)) else [ref]
    inputs = first + [i if isinstance(i, tf.Tensor) else const(i) for i in inputs]
    values_ = {}
    for arg, given in zip(definition.input_arg, inputs):
        if arg.type_attr:
            values_.setdefault(arg.type_attr, given.dtype.base_dtype.name)
    values_.update(attrs)
    outputs = []
    for arg in definition.output_arg:
        t = tf.as_dtype(arg.type) if arg.type else tf.as_dtype(values_[arg.type_attr])
        outputs.append(t._as_ref if arg.is_ref else t)
    input_types = [
        i.dtype if a.is_ref else i.dtype.base_dtype for a, i in zip(definition.input_arg, inputs)
    ]
    return g.create_op(op,
                       inputs,
                       outputs,
                       input_types=input_types,
                       name=op,
                       attrs={
                           k: running.attr_value(kinds[k], v) for k, v in values_.items()
                       })


def handle(t, shape, name="v", **attrs):
    return raw.VarHandleOp(dtype=tf.as_dtype(t),
                           shape=tf.TensorShape(shape),
                           shared_name=name,
                           name=name,
                           **attrs)


def _reference_variables():
    for op in ("VariableV2", "Variable"):
        p = Program(op, "assign_and_read", exact=True)
        with p:
            v = reference("float32", [2, 3], op=op)
            initialized = ref_op("IsVariableInitialized", v, dtype="float32")
            init = ref_op("Assign", v, data(op, "x", (2, 3)))
        p.step(initialized.outputs[0])
        p.step(v, error=True, note="not initialized")
        p.step(init.outputs[0])
        p.step([v, initialized.outputs[0]])
        p.record()
        p = Program(op,
                    "shared_name",
                    exact=True,
                    note="two nodes with one shared name are one variable")
        with p:
            a, b = reference("float32", [2], "a", op), reference("float32", [2], "b", op)
            for v in (a, b):
                v.op._set_attr("shared_name", running.attr_value(_def("string"), "one"))
            init = ref_op("Assign", a, array([1, 2], "float32"))
        p.step(target=init)
        p.step(b)
        p.record()
        for t in optable.kernel_types(op, "dtype"):
            p = Program(op, t, exact=True)
            with p:
                v = reference(t, [2, 2], op=op)
                init = ref_op("Assign", v, data(op, t, (2, 2), t))
                is_initialized = ref_op("IsVariableInitialized", v, dtype=t).outputs[0]
            p.step(is_initialized)
            p.step(target=init)
            p.step([v, is_initialized])
            p.record()
    p = Program("IsVariableInitialized", "before_and_after")
    with p:
        v = reference("int64", [2])
        is_initialized = ref_op("IsVariableInitialized", v, dtype="int64").outputs[0]
        init = ref_op("Assign", v, array([1, 2], "int64"))
    p.step(is_initialized)
    p.step(target=init)
    p.step(is_initialized)
    p.record()
    for t in optable.kernel_types("Assign"):
        p = Program("Assign", t, exact=True)
        with p:
            v = reference(t, [2, 3])
            out = ref_op("Assign", v, data("Assign", t, (2, 3), t))
        p.step(out.outputs[0])
        p.step(v)
        p.record()
    p = Program("Assign", "other_shape", exact=True)
    with p:
        v = reference("float32", [2])
        init = ref_op("Assign", v, array([1, 2], "float32"))
        bad = ref_op("Assign", v, tf.compat.v1.placeholder(tf.float32, name="x"))
        free = ref_op("Assign",
                      v,
                      tf.compat.v1.placeholder(tf.float32, name="y"),
                      validate_shape=False)
        x, y = p.graph.get_tensor_by_name("x:0"), p.graph.get_tensor_by_name("y:0")
    p.step(target=init)
    p.step(bad.outputs[0], {x: [1, 2, 3]}, error=True, note="another shape than the variable's")
    p.step(v, note="unchanged")
    p.step(free.outputs[0], {y: [[1, 2, 3]]},
           note="with validate_shape=false the variable takes any shape")
    p.step(v)
    p.record()
    for op in ("AssignAdd", "AssignSub"):
        for t in optable.kernel_types(op):
            p = Program(op, t)
            with p:
                v = reference(t, [2, 3])
                init = ref_op("Assign", v, data(op, t, (2, 3), t))
                out = ref_op(op, v, data(op, t + "d", (2, 3), t))
            p.step(target=init)
            p.step(out.outputs[0])
            p.step(target=out)
            p.step(v, note="after two additions" if op == "AssignAdd" else "after two subtractions")
            p.record()
        p = Program(op, "errors", exact=True)
        with p:
            v = reference("float32", [2])
            init = ref_op("Assign", v, array([1, 2], "float32"))
            d = tf.compat.v1.placeholder(tf.float32, name="d")
            out = ref_op(op, v, d, use_locking=True)
        p.step(out.outputs[0], {d: [1, 2]}, error=True, note="not initialized")
        p.step(target=init)
        p.step(out.outputs[0], {d: [1, 2, 3]}, error=True, note="another shape")
        p.step(out.outputs[0], {d: [1, 2]})
        p.record()


def _reference_scatter():
    for op in ("ScatterAdd", "ScatterSub", "ScatterUpdate"):
        for t in optable.kernel_types(op):
            p = Program(op, t)
            with p:
                v = reference(t, [4, 2])
                init = ref_op("Assign", v, data(op, t, (4, 2), t))
                index = array([3, 0, 3] if op != "ScatterUpdate" else [3, 0, 1], "int32")
                out = ref_op(op, v, index, data(op, t + "u", (3, 2), t))
            p.step(target=init)
            p.step(out.outputs[0])
            p.step(v)
            p.record()
        p = Program(op, "shapes_and_errors", exact=True)
        with p:
            v = reference("float32", [4, 2])
            init = ref_op("Assign", v, array(np.arange(8).reshape(4, 2), "float32"))
            i, u = v1.placeholder(tf.int64, name="i"), v1.placeholder(tf.float32, name="u")
            out = ref_op(op, v, i, u)
        p.step(out.outputs[0], {i: [0], u: [[1, 2]]}, error=True, note="not initialized")
        p.step(target=init)
        p.step(out.outputs[0], {i: array(2, "int64"), u: [10, 20]}, note="a scalar index")
        p.step(out.outputs[0], {i: [[1], [0]], u: [[[1, 2]], [[3, 4]]]}, note="a matrix of indices")
        p.step(out.outputs[0], {
            i: [1, 0],
            u: array(7, "float32")
        },
               note="a scalar update goes to all")
        p.step(out.outputs[0], {
            i: array([], "int64"),
            u: np.zeros((0, 2), np.float32)
        },
               note="nothing")
        p.step(out.outputs[0], {i: [0, 4], u: [[1, 2], [3, 4]]}, error=True, note="index too large")
        p.step(out.outputs[0], {i: [-1], u: [[1, 2]]}, error=True, note="index negative")
        p.step(out.outputs[0], {i: [0, 1], u: [[1, 2]]}, error=True, note="too few updates")
        p.step(out.outputs[0], {i: [0], u: [[1, 2, 3]]}, error=True, note="rows too long")
        p.record()


def _resource_variables():
    for op, t, low in (("VarHandleOp", "float32", -3), ("ReadVariableOp", "int32", -3),
                       ("VarIsInitializedOp", "float64", -3), ("DestroyResourceOp", "float32", -3)):
        p = Program(op, "life_of_a_variable", exact=True)
        with p:
            h = handle(t, [2, 3])
            is_initialized = raw.VarIsInitializedOp(resource=h)
            assign = raw.AssignVariableOp(resource=h, value=const(data(op, t, (2, 3), t)))
            value = raw.ReadVariableOp(resource=h, dtype=tf.as_dtype(t))
            destroy = raw.DestroyResourceOp(resource=h, ignore_lookup_error=False)
            destroy_quietly = raw.DestroyResourceOp(resource=h, ignore_lookup_error=True)
        p.step(is_initialized)
        p.step(value, error=True, note="not initialized")
        p.step(target=destroy, error=True, note="there is none yet")
        p.step(target=destroy_quietly)
        p.step(target=assign)
        p.step([value, is_initialized])
        p.step(target=destroy)
        p.step(is_initialized)
        p.step(value, error=True, note="destroyed")
        p.record()
    for t in optable.ALL:
        p = Program("ReadVariableOp", t, exact=True)
        with p:
            h = handle(t, [2])
            assign = raw.AssignVariableOp(resource=h,
                                          value=const(data("ReadVariableOp", t, (2,), t)))
            value = raw.ReadVariableOp(resource=h, dtype=tf.as_dtype(t))
        p.step(target=assign)
        p.step(value)
        p.record()
    p = Program("VarHandleOp", "shared_name_and_container", exact=True)
    with p:
        a, b = handle("float32", [2], "one"), raw.VarHandleOp(dtype=tf.float32,
                                                              shape=[2],
                                                              shared_name="one",
                                                              name="b")
        c = raw.VarHandleOp(dtype=tf.float32,
                            shape=[2],
                            shared_name="one",
                            container="elsewhere",
                            name="c")
        assign = raw.AssignVariableOp(resource=a, value=array([1, 2], "float32"))
        rb, rc = (raw.ReadVariableOp(resource=r, dtype=tf.float32) for r in (b, c))
    p.step(target=assign)
    p.step(rb, note="the same shared name: the same variable")
    p.step(rc, error=True, note="another container: another variable")
    p.record()
    p = Program("ReadVariableOp", "wrong_type")
    with p:
        a = handle("float32", [2], "one")
        b = raw.VarHandleOp(dtype=tf.int32, shape=[2], shared_name="one", name="b")
        assign = raw.AssignVariableOp(resource=a, value=array([1, 2], "float32"))
        rb = raw.ReadVariableOp(resource=b, dtype=tf.int32)
    p.step(target=assign)
    p.step(rb, error=True, note="the variable holds float32")
    p.record()
    p = Program("ReadVariableOp", "order_by_control_edges", exact=True)
    with p:
        h = handle("float32", [], "v")
        init = raw.AssignVariableOp(resource=h, value=array(1, "float32"))
        before = raw.ReadVariableOp(resource=h, dtype=tf.float32)
        with tf.control_dependencies([before]):
            add = raw.AssignAddVariableOp(resource=h, value=array(10, "float32"))
        with tf.control_dependencies([add]):
            after = raw.ReadVariableOp(resource=h, dtype=tf.float32)
    p.step(target=init)
    p.step([before, after], note="what was read before must not change when the variable does")
    p.step([before, after])
    p.record()
    for t in optable.kernel_types("AssignVariableOp", "dtype"):
        p = Program("AssignVariableOp", t, exact=True)
        with p:
            h = handle(t, [2, 3])
            assign = raw.AssignVariableOp(resource=h,
                                          value=const(data("AssignVariableOp", t, (2, 3), t)))
            value = raw.ReadVariableOp(resource=h, dtype=tf.as_dtype(t))
        p.step(target=assign)
        p.step(value)
        p.record()
    p = Program("AssignVariableOp", "shapes", exact=True)
    with p:
        h = handle("float32", None)
        x = v1.placeholder(tf.float32, name="x")
        assign = raw.AssignVariableOp(resource=h, value=x)
        strict = raw.AssignVariableOp(resource=h, value=x, validate_shape=True)
        value = raw.ReadVariableOp(resource=h, dtype=tf.float32)
    p.step(target=assign, feed={x: [1, 2]})
    p.step(target=assign, feed={x: [[3, 4, 5]]}, note="any shape")
    p.step(value)
    p.step(target=strict, feed={x: [1, 2]}, error=True, note="validate_shape: the shape must stay")
    p.step(value)
    p.record()
    for op in ("AssignAddVariableOp", "AssignSubVariableOp"):
        for t in optable.kernel_types(op, "dtype"):
            p = Program(op, t)
            with p:
                h = handle(t, [2, 3])
                assign = raw.AssignVariableOp(resource=h, value=const(data(op, t, (2, 3), t)))
                change = getattr(raw, op)(resource=h, value=const(data(op, t + "d", (2, 3), t)))
                value = raw.ReadVariableOp(resource=h, dtype=tf.as_dtype(t))
            p.step(target=assign)
            p.step(target=change)
            p.step(target=change)
            p.step(value)
            p.record()
        p = Program(op, "errors", exact=True)
        with p:
            h = handle("float32", None)
            x, d = v1.placeholder(tf.float32, name="x"), v1.placeholder(tf.float32, name="d")
            assign = raw.AssignVariableOp(resource=h, value=x)
            change = getattr(raw, op)(resource=h, value=d)
            value = raw.ReadVariableOp(resource=h, dtype=tf.float32)
        p.step(target=change, feed={d: [1]}, error=True, note="not initialized")
        p.step(target=assign, feed={x: [1, 2]})
        p.step(target=change, feed={d: [1, 2, 3]}, error=True, note="another shape")
        p.step(value)
        p.record()
    for t in ("int32", "int64"):
        p = Program("VariableShape", t)
        with p:
            h = handle("float32", None)
            x = v1.placeholder(tf.float32, name="x")
            assign = raw.AssignVariableOp(resource=h, value=x)
            shape = raw.VariableShape(input=h, out_type=tf.as_dtype(t))
        p.step(shape, error=True, note="not initialized")
        p.step(target=assign, feed={x: [[1, 2, 3]]})
        p.step(shape)
        p.step(target=assign, feed={x: array(1, "float32")})
        p.step(shape)
        p.record()


def _resource_scatter():
    for op in ("ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterUpdate"):
        for t in optable.kernel_types(op, "dtype"):
            p = Program(op, t)
            with p:
                h = handle(t, [4, 2])
                assign = raw.AssignVariableOp(resource=h, value=const(data(op, t, (4, 2), t)))
                index = array([3, 0, 3] if op != "ResourceScatterUpdate" else [3, 0, 1], "int32")
                change = getattr(raw, op)(resource=h,
                                          indices=index,
                                          updates=const(data(op, t + "u", (3, 2), t)))
                value = raw.ReadVariableOp(resource=h, dtype=tf.as_dtype(t))
            p.step(target=assign)
            p.step(target=change)
            p.step(value)
            p.record()
        p = Program(op, "shapes_and_errors", exact=True)
        with p:
            h = handle("float32", [4, 2])
            i, u = v1.placeholder(tf.int64, name="i"), v1.placeholder(tf.float32, name="u")
            assign = raw.AssignVariableOp(resource=h,
                                          value=array(np.arange(8).reshape(4, 2), "float32"))
            change = getattr(raw, op)(resource=h, indices=i, updates=u)
            value = raw.ReadVariableOp(resource=h, dtype=tf.float32)

        def both(feed, **kwargs):
            p.step(target=change, feed=feed, **kwargs)
            p.step(value)

        p.step(target=change, feed={i: [0], u: [[1, 2]]}, error=True, note="not initialized")
        p.step(target=assign)
        both({i: array(2, "int64"), u: [10, 20]}, note="a scalar index")
        both({i: [[1], [0]], u: [[[1, 2]], [[3, 4]]]}, note="a matrix of indices")
        both({i: [1, 0], u: array(7, "float32")}, note="a scalar update goes to all")
        both({i: array([], "int64"), u: np.zeros((0, 2), np.float32)}, note="nothing")
        p.step(target=change,
               feed={
                   i: [0, 4],
                   u: [[1, 2], [3, 4]]
               },
               error=True,
               note="index too large")
        p.step(target=change, feed={i: [-1], u: [[1, 2]]}, error=True, note="index negative")
        p.step(target=change, feed={i: [0, 1], u: [[1, 2]]}, error=True, note="too few updates")
        p.record()
    op = "ResourceGather"
    for t in optable.kernel_types(op, "dtype"):
        p = Program(op, t, exact=True)
        with p:
            h = handle(t, [4, 2])
            assign = raw.AssignVariableOp(resource=h, value=const(data(op, t, (4, 2), t)))
            out = raw.ResourceGather(resource=h,
                                     indices=array([[3, 0], [3, 1]], "int32"),
                                     dtype=tf.as_dtype(t))
        p.step(target=assign)
        p.step(out)
        p.record()
    p = Program(op, "shapes_and_errors", exact=True)
    with p:
        h = handle("float32", [4, 2])
        i = v1.placeholder(tf.int64, name="i")
        assign = raw.AssignVariableOp(resource=h,
                                      value=array(np.arange(8).reshape(4, 2), "float32"))
        out = raw.ResourceGather(resource=h, indices=i, dtype=tf.float32)
        batched = raw.ResourceGather(resource=h, indices=i, dtype=tf.float32, batch_dims=1)
    p.step(out, {i: [0]}, error=True, note="not initialized")
    p.step(target=assign)
    p.step(out, {i: array(2, "int64")})
    p.step(out, {i: array(np.zeros((0, 2)), "int64")})
    p.step(batched, {i: [[1, 0], [1, 1], [0, 0], [0, 1]]}, note="batch_dims=1")
    p.step(out, {i: [4]}, error=True, note="index too large")
    p.step(out, {i: [0, -1]}, error=True, note="index negative")
    p.record()


def generate():
    _reference_variables()
    _reference_scatter()
    _resource_variables()
    _resource_scatter()
