"""Control flow of the first kind (Switch, Merge, frames), placeholders, assertions, NoOp."""

from tensorflow.python.ops import control_flow_util

from . import optable, running, values
from .base import array, tf, v1
from .harness import rng
from .program import Program
from .state import const, raw, ref_op, reference


def placeholder(t, name, shape=None):
    return v1.placeholder(tf.as_dtype(t), shape, name=name)


class old_style:
    """Makes tf.cond and tf.while_loop build Switch and Merge."""

    def __enter__(self):
        self._was = control_flow_util.ENABLE_CONTROL_FLOW_V2
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = False

    def __exit__(self, *exc):
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = self._was


def _switch():
    op = "Switch"
    for t in optable.kernel_types(op):
        p = Program(op, t, exact=True)
        with p:
            pred = placeholder("bool", "pred")
            s = raw.Switch(data=const(values.ordinary(rng(op, t), (2, 2), t)), pred=pred)
        p.step(s.output_false, {pred: False})
        p.step(s.output_true, {pred: True})
        p.step(s.output_true, {pred: False}, error=True, note="a dead tensor cannot be fetched")
        p.record()
    p = Program(op,
                "dead_through_control_edges",
                note="an assignment that waits for a dead node is dead")
    with p:
        pred = placeholder("bool", "pred")
        v = reference("float32", [])
        init = ref_op("Assign", v, array(0, "float32"))
        s = raw.Switch(data=const(array(1, "float32")), pred=pred)
        yes = tf.identity(s.output_true)
        with tf.control_dependencies([yes]):
            add = ref_op("AssignAdd", v, array(5, "float32"))
    p.step(target=init)
    p.step(target=add, feed={pred: False})
    p.step(v)
    p.step(target=add, feed={pred: True})
    p.step(v)
    p.record()
    p = Program(op, "pred_must_be_scalar")
    with p:
        pred = placeholder("bool", "pred")
        s = raw.Switch(data=const(array(1, "float32")), pred=pred)
    p.step(s.output_true, {pred: [True]}, error=True)
    p.record()

    op = "Merge"
    p = Program(op, "either_branch")
    with p:
        pred = placeholder("bool", "pred")
        s = raw.Switch(data=const(array([1, 2, 3], "float32")), pred=pred)
        m = raw.Merge(inputs=[s.output_false * 10.0, s.output_true + 100.0])
    p.step([m.output, m.value_index], {pred: False})
    p.step([m.output, m.value_index], {pred: True})
    p.record()
    for t in optable.ALL:
        p = Program(op, t, exact=True)
        with p:
            pred = placeholder("bool", "pred")
            a, b = (raw.Switch(data=const(values.ordinary(rng(op, t + k), (2,), t)), pred=pred)
                    for k in "ab")
            m = raw.Merge(inputs=[a.output_false, b.output_true])
        p.step([m.output, m.value_index], {pred: False})
        p.step([m.output, m.value_index], {pred: True})
        p.record()
    p = Program(op, "three_inputs")
    with p:
        a, b = placeholder("bool", "a"), placeholder("bool", "b")
        x = const(array([1], "int32"))
        first = raw.Switch(data=x, pred=a)
        second = raw.Switch(data=first.output_false, pred=b)
        m = raw.Merge(
            inputs=[first.output_true + 1, second.output_true + 2, second.output_false + 3])
    for feed in ((True, True), (False, True), (False, False)):
        p.step([m.output, m.value_index], dict(zip((a, b), feed)))
    p.record()
    p = Program(op, "one_input")
    with p:
        m = raw.Merge(inputs=[const(array([4, 5], "int64"))])
    p.step([m.output, m.value_index])
    p.record()
    p = Program(op, "all_dead", note="what follows a Merge without a live input is dead")
    with p:
        pred = placeholder("bool", "pred")
        outer = raw.Switch(data=const(array(1, "float32")), pred=pred)
        inner = raw.Switch(data=outer.output_true, pred=pred)
        m = raw.Merge(inputs=[inner.output_true, inner.output_false])
        joined = raw.Merge(inputs=[m.output + 1.0, outer.output_false - 1.0])
    p.step([joined.output, joined.value_index], {pred: False})
    p.step([joined.output, joined.value_index], {pred: True})
    p.record()
    for name, branches in (("cond", None), ("nested_cond", "nested")):
        p = Program(op, name)
        with p, old_style():
            x, y = placeholder("float32", "x"), placeholder("float32", "y")
            if branches is None:
                z = tf.cond(x < y, lambda: x + y, lambda: x * y)
            else:
                z = tf.cond(x < y, lambda: tf.cond(x < 0., lambda: -x, lambda: y), lambda: x * y)
            z = tf.identity(z)
        for feed in ((1., 2.), (3., 2.), (-4., 2.)):
            p.step(z, dict(zip((x, y), (array(f, "float32") for f in feed))))
        p.record()
    p = Program(op, "only_the_taken_branch_has_effects")
    with p, old_style():
        pred = placeholder("bool", "pred")
        v = reference("int32", [])
        init = ref_op("Assign", v, array(0, "int32"))
        z = tf.cond(pred, lambda: tf.identity(ref_op("AssignAdd", v, array(1, "int32")).outputs[0]),
                    lambda: tf.identity(ref_op("AssignAdd", v, array(100, "int32")).outputs[0]))
    p.step(target=init)
    for b in (True, False, True):
        p.step(z, {pred: b})
    p.step(v)
    p.record()


def _loops():

    def loop(op, name, build, feeds, **kwargs):
        p = Program(op, name, **kwargs)
        with p, old_style():
            n = placeholder("int32", "n", [])
            out = [tf.identity(t) for t in build(n)]
        for f in feeds:
            p.step(out, {n: array(f, "int32")})
        p.record()

    def counting(n):
        return tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), [0, 0])

    def vector(n):
        return tf.while_loop(lambda i, x: i < n, lambda i, x:
                             (i + 1, x * 0.5 + tf.cast(i, tf.float32)),
                             [0, tf.constant([1., 2., 3.])])

    def growing(n):
        return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.concat([x, [i]], 0)),
                             [0, tf.constant([7])],
                             [tf.TensorShape([]), tf.TensorShape([None])])

    def nested(n):

        def outer(i, s):
            _, inner = tf.while_loop(lambda j, t: j <= i, lambda j, t: (j + 1, t + i * j), [0, 0])
            return i + 1, s + inner

        return tf.while_loop(lambda i, s: i < n, outer, [0, 0])

    def three_deep(n):

        def level(depth, outer_value):

            def body(i, s):
                return i + 1, s + (outer_value if depth == 0 else level(depth - 1, i +
                                                                        outer_value)[1])

            return tf.while_loop(lambda i, s: i < n, body, [0, 0])

        return level(2, tf.constant(1))

    def with_cond(n):
        return tf.while_loop(
            lambda i, s: i < n, lambda i, s:
            (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: s + i, lambda: s * 2)), [0, 1])

    def two_loops(n):
        _, a = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + 2), [0, 0])
        _, b = tf.while_loop(lambda i, s: i < a, lambda i, s: (i + 1, s + 3), [0, 0])
        return a, b

    def swapped(n):
        return tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), [0, 0, 1])

    def side_by_side(n):
        loops = [
            tf.while_loop(lambda i, s: i < n,
                          lambda i, s, k=k: (i + 1, s + k), [0, 0],
                          parallel_iterations=k) for k in (1, 2, 32)
        ]
        return [l[1] for l in loops]

    for t in optable.ALL:
        p = Program("Enter", t, exact=True, note="a value of the type goes round the loop")
        with p, old_style():
            n = placeholder("int32", "n", [])
            v = const(values.ordinary(rng("Enter", t), (2,), t))
            out = tf.identity(
                tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.identity(x)), [0, v])[1])
        p.step(out, {n: array(0, "int32")})
        p.step(out, {n: array(2, "int32")})
        p.record()
    loop("Enter", "constant_of_the_loop", vector, (0, 1, 5))
    loop("Enter", "nested_frames", nested, (0, 1, 4))
    loop("Enter", "three_frames_deep", three_deep, (0, 1, 3))
    loop("Enter", "parallel_iterations", side_by_side, (0, 7))
    loop("Exit", "counting", counting, (0, 1, 10))
    loop("Exit", "value_of_another_loop", two_loops, (0, 3))
    loop("NextIteration", "many", counting, (1000,))
    loop("NextIteration", "growing", growing, (0, 4))
    loop("NextIteration", "swapped_variables", swapped, (0, 1, 10))
    loop("LoopCond", "condition_in_the_body", with_cond, (0, 1, 6))
    loop("LoopCond", "counting", counting, (0, 3))
    for op, deps in (("LoopCond", False), ("Exit", True)):
        p = Program(op, "loop_in_a_branch" + ("_not_taken" if deps else ""))
        with p, old_style():
            n = placeholder("int32", "n", [])
            out = tf.identity(
                tf.cond(n > 2, lambda: tf.while_loop(lambda i: i < 10, lambda i: i + n, [0])[0],
                        lambda: tf.constant(-1)))
        for f in ((3, 2) if not deps else (0, 5)):
            p.step(out, {n: array(f, "int32")})
        p.record()
    p = Program("NextIteration", "effects_in_each_iteration")
    with p, old_style():
        v = reference("int32", [])
        init = ref_op("Assign", v, array(0, "int32"))

        def body(i):
            with tf.control_dependencies([ref_op("AssignAdd", v, i)]):
                return i + 1

        done = tf.identity(
            tf.while_loop(lambda i: i < 5, body, [tf.constant(0)], parallel_iterations=1)[0])
    p.step(target=init)
    p.step(done)
    p.step(v)
    p.record()
    p = Program("LoopCond", "fails_in_the_loop")
    with p, old_style():
        x = placeholder("int32", "x", [])
        out = tf.identity(
            tf.while_loop(lambda i: i < 5, lambda i: i + 1 + 0 * (tf.constant(1) // (i - x)),
                          [tf.constant(0)])[0])
    p.step(out, {x: array(9, "int32")})
    p.step(out, {x: array(3, "int32")}, error=True, note="division by zero in the fourth iteration")
    p.step(out, {x: array(9, "int32")}, note="and the session goes on")
    p.record()
    p = Program("ControlTrigger",
                "fires_after_a_dead_node",
                note="NoOp would be dead; a ControlTrigger fires all the same")
    with p:
        pred = placeholder("bool", "pred")
        v = reference("int32", [])
        init = ref_op("Assign", v, array(0, "int32"))
        s = raw.Switch(data=const(array(1, "int32")), pred=pred)
        yes = tf.identity(s.output_true)
        with tf.control_dependencies([yes]):
            trigger = raw.ControlTrigger()
        with tf.control_dependencies([trigger]):
            add = ref_op("AssignAdd", v, array(1, "int32"))
    p.step(target=init)
    p.step(target=add, feed={pred: False})
    p.step(v)
    p.step(target=add, feed={pred: True})
    p.step(v)
    p.record()


def _raw_ref(op, inputs, outputs, attrs, name):
    g = v1.get_default_graph()
    kinds = {a.name: a for a in running.op_def_registry.get(op).attr}
    return g.create_op(op,
                       inputs,
                       outputs,
                       input_types=[i.dtype for i in inputs],
                       name=name,
                       attrs={
                           k: running.attr_value(kinds[k], v) for k, v in attrs.items()
                       })


def _references():
    float_ref = tf.float32._as_ref
    p = Program("RefIdentity", "same_variable")
    with p:
        v = reference("float32", [2])
        init = ref_op("Assign", v, array([1, 2], "float32"))
        alias = _raw_ref("RefIdentity", [v], [float_ref], {"T": "float32"}, "alias").outputs[0]
        add = ref_op("AssignAdd", alias, array([10, 10], "float32"))
    p.step(target=init)
    p.step(alias)
    p.step(target=add)
    p.step(v)
    p.record()
    for op in ("RefSwitch", "RefMerge"):
        for t in optable.kernel_types("RefSwitch") if op == "RefSwitch" else ["float32"]:
            ref = tf.as_dtype(t)._as_ref
            p = Program(op, t, exact=True)
            with p:
                pred = placeholder("bool", "pred")
                v = reference(t, [2])
                init = ref_op("Assign", v, values.ordinary(rng(op, t), (2,), t))
                s = _raw_ref("RefSwitch", [v, pred], [ref, ref], {"T": t}, "switch")
                no = ref_op("Assign", s.outputs[0], values.ordinary(rng(op, t + "n"), (2,), t))
                yes = ref_op("Assign", s.outputs[1], values.ordinary(rng(op, t + "y"), (2,), t))
                m = _raw_ref("RefMerge", [no.outputs[0], yes.outputs[0]], [ref, tf.int32], {
                    "T": t,
                    "N": 2
                }, "merge")
            p.step(target=init)
            for b in (True, False):
                p.step(list(m.outputs), {pred: b})
                p.step(v)
            p.record()
    for op in ("RefEnter", "RefExit", "RefNextIteration"):
        p = Program(
            op,
            "loop_over_a_variable",
            note="the reference goes round the loop and each iteration adds to the variable")
        with p:
            n = placeholder("int32", "n", [])
            v = reference("float32", [])
            init = ref_op("Assign", v, array(1, "float32"))
            frame = {"frame_name": "loop", "parallel_iterations": 1}
            i0 = raw.Enter(data=const(array(0, "int32")), **frame)
            limit = raw.Enter(data=n, is_constant=True, **frame)
            v0 = _raw_ref("RefEnter", [v], [float_ref], dict(frame, T="float32"),
                          "v_enter").outputs[0]
            i = raw.Merge(inputs=[i0, i0])
            w = _raw_ref("RefMerge", [v0, v0], [float_ref, tf.int32], {
                "T": "float32",
                "N": 2
            }, "v_merge")
            go = raw.LoopCond(input=raw.Less(x=i.output, y=limit))
            i_switch = raw.Switch(data=i.output, pred=go)
            v_switch = _raw_ref("RefSwitch", [w.outputs[0], go], [float_ref, float_ref],
                                {"T": "float32"}, "v_switch")
            with tf.control_dependencies([tf.identity(i_switch.output_true)]):
                one = tf.constant(1)
                two = tf.constant(2.0)
            i_next = raw.NextIteration(data=raw.AddV2(x=i_switch.output_true, y=one))
            add = ref_op("AssignAdd", v_switch.outputs[1], two)
            v_next = _raw_ref("RefNextIteration", [add.outputs[0]], [float_ref], {
                "T": "float32"
            }, "v_next").outputs[0]
            i.output.op._update_input(1, i_next)
            w._update_input(1, v_next)
            i_exit = raw.Exit(data=i_switch.output_false)
            v_exit = _raw_ref("RefExit", [v_switch.outputs[0]], [float_ref], {
                "T": "float32"
            }, "v_exit").outputs[0]
        p.step(target=init)
        p.step([v_exit, i_exit], {n: array(0, "int32")})
        p.step([v_exit, i_exit], {n: array(3, "int32")})
        p.step(v)
        p.record()


def _old_placeholder(t):
    """A PlaceholderV2, which only graphs of a version below 23 may have."""
    definition = running.graph_pb2.GraphDef()
    definition.versions.producer = 22
    node, _ = running.node_def("PlaceholderV2", [], {"dtype": t, "shape": None})
    node.name = "x"
    definition.node.add().CopyFrom(node)
    return tf.graph_util.import_graph_def(definition, return_elements=["x:0"], name="")[0]


def _placeholders():
    for op in ("Placeholder", "PlaceholderV2"):
        for t in optable.ALL:
            p = Program(op, t, exact=True)
            with p:
                x = _old_placeholder(t) if op == "PlaceholderV2" else placeholder(t, "x")
                y = tf.identity(x)
            p.step(y, {x: values.ordinary(rng(op, t), (2, 3), t)})
            p.step(y, error=True, note="must be fed")
            p.record()
        p = Program(op, "fetching_what_is_fed", exact=True)
        with p:
            x = _old_placeholder("float32") if op == "PlaceholderV2" else placeholder(
                "float32", "x")
        p.step([x, x], {x: array([3, 4], "float32")})
        p.record()
    op = "PlaceholderWithDefault"
    for t in optable.ALL:
        p = Program(op, t, exact=True)
        with p:
            x = raw.PlaceholderWithDefault(input=const(values.ordinary(rng(op, t), (2,), t)),
                                           shape=[None])
            y = tf.identity(x)
        p.step(y)
        p.step([x, y], {x: values.ordinary(rng(op, t + "f"), (3,), t)})
        p.record()
    p = Program("NoOp", "group")
    with p:
        v = reference("float32", [])
        init = ref_op("Assign", v, array(1, "float32"))
        with tf.control_dependencies([init]):
            a = ref_op("AssignAdd", v, array(10, "float32"))
        with tf.control_dependencies([a]):
            group = raw.NoOp()
        with tf.control_dependencies([group]):
            twice = ref_op("AssignAdd", v, array(100, "float32"))
        nothing = raw.NoOp()
    p.step(target=group)
    p.step(v)
    p.step(target=[twice])
    p.step(v)
    p.step(target=nothing)
    p.step(v, target=nothing)
    p.record()
    op = "Assert"
    p = Program(op, "holds_and_fails")
    with p:
        c, x = placeholder("bool", "c"), placeholder("float32", "x")
        check = raw.Assert(
            condition=c,
            data=[const(array(b"x is", "string")), x,
                  const(array([1, 2, 3, 4], "int32"))],
            summarize=2)
        with tf.control_dependencies([check]):
            y = x + 1.0
    p.step(y, {c: True, x: [1, 2]})
    p.step(y, {c: False, x: [1, 2]}, error=True)
    p.step(target=check, feed={c: False, x: [1, 2]}, error=True)
    p.step(target=check, feed={c: True, x: [1, 2]})
    p.step(target=check,
           feed={
               c: [True, True],
               x: [1, 2]
           },
           error=True,
           note="the condition must be a scalar")
    p.record()


def generate():
    _switch()
    _loops()
    _references()
    _placeholders()
