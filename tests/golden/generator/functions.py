"""Functions and functional control flow: calls, If, Case, While, symbolic gradients."""

import numpy as np

from tensorflow.python.framework import function as tf_function
from tensorflow.python.ops import functional_ops

from .control_flow import placeholder
from .base import array, tf
from .program import Program
from .state import const, handle, raw

Defun = tf_function.Defun


def f32(x):
    return array(x, "float32")


def i32(x):
    return array(x, "int32")


def _calls():

    def call(stateful, f, args, types):
        op = raw.StatefulPartitionedCall if stateful else raw.PartitionedCall
        return op(args=args, Tout=types, f=f)

    for op in ("PartitionedCall", "StatefulPartitionedCall"):
        stateful = op != "PartitionedCall"
        p = Program(op, "two_results")
        with p:

            @Defun(tf.float32, tf.float32, func_name="SumAndProduct")
            def both(x, y):
                return x + y, x * y

            x, y = placeholder("float32", "x"), placeholder("float32", "y")
            out = call(stateful, both, [x, y], [tf.float32, tf.float32])
        p.step(out, {x: f32([1, 2]), y: f32([3, 4])})
        p.step(out, {x: f32(2), y: f32([[5]])}, note="shapes are those of the call")
        p.step(out[1], {x: f32(2), y: f32(3)})
        p.record()
        p = Program(op, "nested", note="one function calls another, twice")
        with p:

            @Defun(tf.float32, func_name="Inner")
            def inner(x):
                return x * x

            @Defun(tf.float32, func_name="Outer")
            def outer(x):
                return call(stateful, inner, [x], [tf.float32])[0] + call(
                    stateful, inner, [x + 1.0], [tf.float32])[0]

            x = placeholder("float32", "x")
            out = call(stateful, outer, [x], [tf.float32])
        p.step(out, {x: f32([1, 2, 3])})
        p.record()
        p = Program(op, "many_types", exact=True)
        with p:

            @Defun(tf.int32, tf.string, tf.bool, func_name="Shuffle")
            def shuffle(a, b, c):
                return tf.identity(c), tf.identity(a) + 1, tf.identity(b)

            a, b, c = placeholder("int32", "a"), placeholder("string",
                                                             "b"), placeholder("bool", "c")
            out = call(stateful, shuffle, [a, b, c], [tf.bool, tf.int32, tf.string])
        p.step(out, {a: i32([1, 2]), b: array([b"x", b""], "string"), c: np.array(True)})
        p.record()
        p = Program(op, "argument_is_the_result", exact=True)
        with p:

            @Defun(tf.float32, func_name="Same")
            def same(x):
                return x

            x = placeholder("float32", "x")
            out = call(stateful, same, [x], [tf.float32])
        p.step(out, {x: f32([1, 2])})
        p.record()
        p = Program(op, "constants_only")
        with p:

            @Defun(func_name="Seven")
            def seven():
                return tf.constant(7.0)

            out = call(stateful, seven, [], [tf.float32])
        p.step(out)
        p.record()
        p = Program(op, "fails_inside")
        with p:

            @Defun(tf.int32, tf.int32, func_name="Divide")
            def divide(x, y):
                return x // y

            x, y = placeholder("int32", "x"), placeholder("int32", "y")
            out = call(stateful, divide, [x, y], [tf.int32])
        p.step(out, {x: i32(7), y: i32(2)})
        p.step(out, {x: i32(7), y: i32(0)}, error=True)
        p.step(out, {x: i32(7), y: i32(3)})
        p.record()
        p = Program(op, "tf_function", note="as tf.function makes it, with a captured tensor")
        with p:
            w = placeholder("float32", "w", [2, 2])
            x = placeholder("float32", "x", [None, 2])
            if stateful:
                h = handle("float32", [2], "b")
                init = raw.AssignVariableOp(resource=h, value=const(f32([1, -1])))

                @tf.function
                def layer(x):
                    return tf.nn.relu(
                        tf.matmul(x, w) + raw.ReadVariableOp(resource=h, dtype=tf.float32))
            else:

                @tf.function
                def layer(x):
                    return tf.nn.relu(tf.matmul(x, w) - 1.0)

            out = layer(layer(x))
        if stateful:
            p.step(target=init)
        p.step(out, {w: f32([[1, -1], [0.5, 2]]), x: f32([[1, 2], [3, -4], [0, 0]])})
        p.record()
    p = Program("StatefulPartitionedCall", "effects_in_program_order")
    with p:
        h = handle("float32", [], "v")
        init = raw.AssignVariableOp(resource=h, value=const(f32(1)))

        @tf.function
        def step(x):
            raw.AssignAddVariableOp(resource=h, value=x)
            a = raw.ReadVariableOp(resource=h, dtype=tf.float32)
            raw.AssignVariableOp(resource=h, value=a * 2.0)
            return a, raw.ReadVariableOp(resource=h, dtype=tf.float32)

        x = placeholder("float32", "x", [])
        a, b = step(x)
    p.step(target=init)
    p.step([a, b], {x: f32(3)})
    p.step([a, b], {x: f32(1)})
    p.record()
    p = Program("StatefulPartitionedCall", "loop_in_a_function")
    with p:

        @tf.function
        def power(x, n):
            return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x),
                                 [0, tf.ones_like(x)])[1]

        x, n = placeholder("float32", "x", [None]), placeholder("int32", "n", [])
        out = power(x, n)
    p.step(out, {x: f32([1, 2, -3]), n: i32(4)})
    p.step(out, {x: f32([1, 2, -3]), n: i32(0)})
    p.record()


def _branches():
    for op in ("If", "StatelessIf"):
        make = raw.If if op == "If" else raw.StatelessIf
        for t, conditions in (("bool", [True, False]), ("int32", [1, 0, -3]), ("int64", [5, 0]),
                              ("float32", [0.5, 0.0, np.nan]), ("float64", [1e-300, -0.0]),
                              ("uint8", [255, 0]), ("string", [b"x", b""])):
            p = Program(op, "condition_" + t)
            with p:

                @Defun(tf.float32, tf.float32, func_name="Then")
                def then(x, y):
                    return x + y, x * 1.0

                @Defun(tf.float32, tf.float32, func_name="Else")
                def otherwise(x, y):
                    return x - y, y * 2.0

                c = placeholder(t, "c")
                x, y = placeholder("float32", "x"), placeholder("float32", "y")
                out = make(cond=c,
                           input=[x, y],
                           Tout=[tf.float32, tf.float32],
                           then_branch=then,
                           else_branch=otherwise)
            for v in conditions:
                p.step(out, {c: array(v, t), x: f32([10, 20]), y: f32([1, 2])})
            if t in ("bool", "float32"):
                for v, note in (([], "an empty tensor is false"),
                                ([0, 0], "one with elements is true"), ([[1]], "")):
                    p.step(out, {c: array(v, t), x: f32([10, 20]), y: f32([1, 2])}, note=note)
            p.record()
        p = Program(op, "tf_cond", note="as tf.cond makes it")
        with p:
            x, y = placeholder("float32", "x", []), placeholder("float32", "y", [])
            if op == "If":
                h = handle("float32", [], "v")
                init = raw.AssignVariableOp(resource=h, value=const(f32(1)))

                def grow():
                    raw.AssignAddVariableOp(resource=h, value=x)
                    return raw.ReadVariableOp(resource=h, dtype=tf.float32)

                out = tf.cond(x < y, grow, lambda: x * y)
                value = raw.ReadVariableOp(resource=h, dtype=tf.float32)
            else:
                out = tf.cond(x < y, lambda: tf.cond(x < 0., lambda: -x, lambda: y), lambda: x * y)
        if op == "If":
            p.step(target=init)
        for a, b in ((1, 2), (3, 2), (-4, 2)):
            p.step(out, {x: f32(a), y: f32(b)})
            if op == "If":
                p.step(value)
        p.record()
        p = Program(op, "different_shapes", note="the branches give different shapes")
        with p:

            @Defun(tf.float32, func_name="Long")
            def long(x):
                return tf.concat([x, x], 0)

            @Defun(tf.float32, func_name="Short")
            def short(x):
                return x[:1]

            c, x = placeholder("bool", "c"), placeholder("float32", "x")
            out = make(cond=c, input=[x], Tout=[tf.float32], then_branch=long, else_branch=short)
        p.step(out, {c: True, x: f32([1, 2, 3])})
        p.step(out, {c: False, x: f32([1, 2, 3])})
        p.record()
        p = Program(op, "fails_in_a_branch", note="only the branch that is taken can fail")
        with p:

            @Defun(tf.int32, func_name="Bad")
            def bad(x):
                return 1 // x

            @Defun(tf.int32, func_name="Good")
            def good(x):
                return x + 1

            c, x = placeholder("bool", "c"), placeholder("int32", "x")
            out = make(cond=c, input=[x], Tout=[tf.int32], then_branch=bad, else_branch=good)
        p.step(out, {c: False, x: i32(0)})
        p.step(out, {c: True, x: i32(0)}, error=True)
        p.record()
    for op in ("Case", "StatelessCase"):
        make = raw.Case if op == "Case" else raw.StatelessCase
        p = Program(op, "three_branches")
        with p:

            def branch(k):
                return Defun(tf.float32,
                             func_name="Branch%d" % k)(lambda x: (x * float(k + 1), tf.constant(k)))

            branches = [branch(k) for k in range(3)]
            i, x = placeholder("int32", "i"), placeholder("float32", "x")
            out = make(branch_index=i, input=[x], Tout=[tf.float32, tf.int32], branches=branches)
        for k in (0, 1, 2):
            p.step(out, {i: i32(k), x: f32([1, 2])})
        for k in (3, -1):
            p.step(out, {
                i: i32(k),
                x: f32([1, 2])
            },
                   note="an index out of range takes the last branch")
        p.record()
        p = Program(op, "tf_switch_case")
        with p:
            i, x = placeholder("int32", "i", []), placeholder("float32", "x", [None])
            if op == "Case":
                h = handle("float32", [2], "v")
                init = raw.AssignVariableOp(resource=h, value=const(f32([1, 1])))
                read = lambda: raw.ReadVariableOp(resource=h, dtype=tf.float32) + x
                out = tf.switch_case(i, [lambda: x + 1.0, read], default=lambda: -x)
            else:
                out = tf.switch_case(i, [lambda: x + 1.0, lambda: x * x], default=lambda: -x)
        if op == "Case":
            p.step(target=init)
        for k in (0, 1, 2, -5):
            p.step(out, {i: i32(k), x: f32([3, 4])})
        p.record()


def _whiles():
    for op in ("While", "StatelessWhile"):
        make = raw.While if op == "While" else raw.StatelessWhile
        p = Program(op, "sum")
        with p:

            @Defun(tf.int32, tf.int32, tf.int32, func_name="Below")
            def below(i, n, s):
                return i < n

            @Defun(tf.int32, tf.int32, tf.int32, func_name="AddUp")
            def add(i, n, s):
                return i + 1, n, s + i

            n = placeholder("int32", "n")
            out = make(input=[const(i32(0)), n, const(i32(0))], cond=below, body=add)
        for k in (0, 1, 10, 500):
            p.step(out, {n: i32(k)})
        p.record()
        p = Program(op,
                    "condition_is_a_number",
                    note="the loop goes on while the value is not zero")
        with p:

            @Defun(tf.float32, tf.int32, func_name="Value")
            def value(x, s):
                return tf.identity(x)

            @Defun(tf.float32, tf.int32, func_name="OneLess")
            def less(x, s):
                return x - 1.0, s + 10

            x = placeholder("float32", "x")
            out = make(input=[x, const(i32(0))], cond=value, body=less)
        p.step(out, {x: f32(3)})
        p.step(out, {x: f32(0)})
        p.record()
        p = Program(op, "growing_shape")
        with p:

            @Defun(tf.int32, tf.float32, func_name="Below")
            def fewer(i, x):
                return i < 3

            @Defun(tf.int32, tf.float32, func_name="Double")
            def double(i, x):
                return i + 1, tf.concat([x, x], 0)

            x = placeholder("float32", "x")
            out = make(input=[const(i32(0)), x], cond=fewer, body=double)
        p.step(out, {x: f32([1])})
        p.record()
        p = Program(op, "nested_tf_while", note="as tf.while_loop makes it")
        with p:
            n = placeholder("int32", "n", [])
            if op == "While":
                h = handle("int32", [], "v")
                init = raw.AssignVariableOp(resource=h, value=const(i32(0)))

                def outer(i, s):
                    raw.AssignAddVariableOp(resource=h, value=i)
                    _, t = tf.while_loop(lambda j, t: j <= i, lambda j, t: (j + 1, t + i * j),
                                         [0, 0])
                    return i + 1, s + t
            else:

                def outer(i, s):
                    _, t = tf.while_loop(lambda j, t: j <= i, lambda j, t: (j + 1, t + i * j),
                                         [0, 0])
                    return i + 1, s + t

            out = tf.while_loop(lambda i, s: i < n, outer, [0, 0])
            out = [tf.identity(o) for o in out]
            if op == "While":
                with tf.control_dependencies(out):
                    value = raw.ReadVariableOp(resource=h, dtype=tf.int32)
        if op == "While":
            p.step(target=init)
        for k in (0, 1, 4):
            p.step(out, {n: i32(k)})
        if op == "While":
            p.step(value, {n: i32(3)})
        p.record()
        p = Program(op, "fails_in_the_body")
        with p:

            @Defun(tf.int32, func_name="Positive")
            def positive(i):
                return i > -3

            @Defun(tf.int32, func_name="Divide")
            def divide(i):
                return i - 1 + 0 * (1 // i)

            x = placeholder("int32", "x")
            out = make(input=[x], cond=positive, body=divide)
        p.step(out, {x: i32(2)}, error=True, note="a division by zero")
        p.step(out, {x: i32(-5)})
        p.record()
        p = Program(op,
                    "tf_while_with_gradient",
                    note="the gradient of a loop: intermediate values travel in tensor lists")
        with p:
            x = placeholder("float32", "x", [2])
            n = placeholder("int32", "n", [])
            _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y * x) + y),
                                 [0, x])
            loss = tf.reduce_sum(y)
            dx = tf.gradients(loss, x)[0]
        for k in (0, 1, 3):
            p.step([y, dx], {x: f32([0.5, -1.5]), n: i32(k)})
        p.record()
    p = Program("If", "tf_cond_with_gradient")
    with p:
        x, c = placeholder("float32", "x", [2]), placeholder("bool", "c", [])
        y = tf.cond(c, lambda: tf.exp(x) * x, lambda: x * x)
        dx = tf.gradients(tf.reduce_sum(y), x)[0]
    for b in (True, False):
        p.step([y, dx], {x: f32([0.5, -1.5]), c: np.array(b)})
    p.record()


def _symbolic_gradients():
    op = "SymbolicGradient"

    def record(name, f, inputs, grads, note=""):
        """f of the inputs; grads flow in at its outputs."""
        p = Program(op, name, note=note, rtol=1e-5, atol=1e-6)
        with p:
            fn = Defun(*[tf.as_dtype(a.dtype) for a in inputs], func_name="F")(f)
            xs = [
                placeholder(tf.as_dtype(a.dtype).name, "x%d" % i, a.shape)
                for i, a in enumerate(inputs)
            ]
            dys = [
                placeholder(tf.as_dtype(g.dtype).name, "dy%d" % i, g.shape)
                for i, g in enumerate(grads)
            ]
            y = fn(*xs)
            dx = functional_ops.symbolic_gradient(input=xs + dys, Tout=[x.dtype for x in xs], f=fn)
        feed = dict(list(zip(xs, inputs)) + list(zip(dys, grads)))
        p.step(list(y) if isinstance(y, (list, tuple)) else y, dict(zip(xs, inputs)))
        p.step(dx, feed)
        p.record()

    r = np.random.RandomState(7)

    def some(*shape):
        return np.round(r.uniform(-1, 1, shape), 3).astype(np.float32)

    record("square", lambda x: x * x, [some(3)], [some(3)])
    record("two_inputs", lambda x, y: x * y + x, [some(3), some(3)], [some(3)])
    record("broadcast", lambda x, b: x * b + b, [some(2, 3), some(3)], [some(2, 3)],
           "the gradient of what was broadcast is summed")
    record("matmul", lambda x, w: tf.matmul(x, w), [some(2, 3), some(3, 4)], [some(2, 4)])
    record("matmul_transposed", lambda x, w: tf.matmul(x, w, transpose_b=True),
           [some(2, 3), some(4, 3)], [some(2, 4)])
    record("dense_layer", lambda x, w, b: tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b)),
           [some(2, 3), some(3, 4), some(4)], [some(2, 4)])
    record("two_outputs", lambda x: (tf.tanh(x), x * 3.0), [some(3)], [some(3), some(3)])
    record("unused_input", lambda x, y: tf.exp(x) + 0.0 * y, [some(3), some(3)], [some(3)])
    record("sum_and_mean", lambda x: tf.reduce_sum(x) * tf.reduce_mean(x), [some(2, 3)], [some()])
    record("unary_chain", lambda x: tf.sigmoid(tf.sin(x) * tf.cos(x) - tf.sqrt(tf.abs(x) + 1.0)),
           [some(4)], [some(4)])
    record("divide_and_power", lambda x, y: tf.divide(x, y * y + 1.0) + tf.math.log(y * y + 2.0),
           [some(3), some(3)], [some(3)])
    record("reshape_and_transpose", lambda x: tf.transpose(tf.reshape(x, [3, 2])) * 2.0,
           [some(2, 3)], [some(2, 3)])


def generate():
    _calls()
    _branches()
    _whiles()
    _symbolic_gradients()
