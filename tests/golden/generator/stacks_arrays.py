"""Stacks and tensor arrays: what TensorFlow 1's loops and their gradients keep. Both live in
handles that end with their step, so every case is a program."""

from . import optable, values
from .base import array, tf, v1
from .control_flow import old_style, placeholder
from .harness import rng
from .lists_queues import i32, opaque
from .program import Program
from .state import const, raw


def f32(x):
    return const(array(x, "float32"))


def _stack(t="float32", size=-1, name="s"):
    return raw.StackV2(max_size=const(i32(size)), elem_type=tf.as_dtype(t), stack_name=name)


def _push(handle, *elements):
    """The last of the pushed elements, pushed one after the other."""
    last = None
    for element in elements:
        with tf.control_dependencies([] if last is None else [last]):
            last = raw.StackPushV2(handle=handle, elem=element)
    return last


def _pop(handle, t="float32", after=()):
    with tf.control_dependencies(list(after)):
        return raw.StackPopV2(handle=handle, elem_type=tf.as_dtype(t))


def _stacks():
    for t in optable.ALL:
        p = Program("StackPushV2", t, exact=True)
        with p:
            s = _stack(t)
            x = const(values.ordinary(rng("Stack", t), (2, 3), t))
            y = const(values.ordinary(rng("Stack", t + "y"), (4,), t))
            pushed = _push(s, x, y)
            first = _pop(s, t, [pushed])
            second = _pop(s, t, [first])
        p.step([pushed, first, second])
        p.record()
    p = Program("StackPopV2", "errors")
    with p:
        full = _stack(size=1)
        too_many = _push(full, f32(1), f32(2))
        empty = _pop(_stack())
        wrong = _push(opaque(_stack("int32")), f32(1))
        fits = _push(_stack(size=2), f32(1), f32(2))
    p.step(too_many, error=True, note="more than max_size")
    p.step(fits)
    p.step(empty, error=True, note="empty")
    p.step(wrong, error=True, note="pushes another type")
    p.record()
    p = Program("StackCloseV2", "closed")
    with p:
        s = _stack()
        with tf.control_dependencies([_push(s, f32(1))]):
            close = raw.StackCloseV2(handle=s)
        with tf.control_dependencies([close]):
            late = _push(s, f32(2))
            pop = _pop(s)
    p.step(target=close)
    p.step(late, error=True)
    p.step(pop, error=True)
    p.record()
    p = Program("StackV2", "max_size_is_a_scalar")
    with p:
        n = placeholder("int32", "n")
        s = raw.StackV2(max_size=n, elem_type=tf.float32)
        pushed = _push(s, f32(5))
    p.step(pushed, {n: 1})
    p.step(pushed, {n: 0}, error=True)
    p.step(pushed, {n: [1]}, error=True)
    p.record()


def _array(t="float32", size=3, **attrs):
    return raw.TensorArrayV3(size=const(i32(size)) if isinstance(size, int) else size,
                             dtype=tf.as_dtype(t), **attrs)


def _write(a, index, value, flow=None):
    return raw.TensorArrayWriteV3(handle=a.handle, index=index, value=value,
                                  flow_in=a.flow if flow is None else flow)


def _fill(a, *elements):
    flow = a.flow
    for i, value in enumerate(elements):
        flow = _write(a, const(i32(i)), value, flow)
    return flow


def _read(handle, index, flow, t="float32"):
    return raw.TensorArrayReadV3(handle=handle, index=index, flow_in=flow, dtype=tf.as_dtype(t))


def _gather(handle, indices, flow, t="float32", shape=None):
    return raw.TensorArrayGatherV3(handle=handle, indices=indices, flow_in=flow,
                                   dtype=tf.as_dtype(t), element_shape=shape)


def _concat(handle, flow, t="float32", shape=None):
    return raw.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=tf.as_dtype(t),
                                   element_shape_except0=shape)


def _size(a, flow=None):
    return raw.TensorArraySizeV3(handle=a.handle, flow_in=a.flow if flow is None else flow)


def _types():
    for op, attr in (("TensorArrayReadV3", "dtype"), ("TensorArrayGatherV3", "dtype"),
                     ("TensorArrayConcatV3", "dtype"), ("TensorArrayWriteV3", "T"),
                     ("TensorArrayScatterV3", "T"), ("TensorArraySplitV3", "T")):
        for t in [t for t in optable.ALL if t in optable.kernel_types(op, attr)]:
            p = Program(op, t, exact=True)
            with p:
                a = _array(t)
                x = const(values.ordinary(rng(op, t), (3, 2), t))
                if op == "TensorArraySplitV3":
                    flow = raw.TensorArraySplitV3(handle=a.handle, value=x, flow_in=a.flow,
                                                  lengths=const(array([1, 0, 2], "int64")))
                elif op == "TensorArrayScatterV3":
                    flow = raw.TensorArrayScatterV3(handle=a.handle, value=x, flow_in=a.flow,
                                                    indices=const(i32([2, 0, 1])))
                else:
                    flow = _fill(a, x[0], x[1], x[2])
                if op == "TensorArrayGatherV3":
                    out = [_gather(a.handle, const(i32([2, 0])), flow, t)]
                elif op == "TensorArrayConcatV3":
                    out = list(_concat(a.handle, flow, t))
                else:
                    out = [_read(a.handle, const(i32(i)), flow, t) for i in range(3)]
            p.step(out)
            p.record()


def _arrays():
    p = Program("TensorArrayV3", "size")
    with p:
        n = placeholder("int32", "n")
        size = _size(_array(size=n))
    p.step(size, {n: 4})
    p.step(size, {n: 0})
    p.step(size, {n: [3]}, error=True)
    p.record()

    p = Program("TensorArrayWriteV3", "indices_and_shapes")
    with p:
        i, x = placeholder("int32", "i"), placeholder("float32", "x")
        plain = _array()
        written = _write(plain, i, x)
        element = _read(plain.handle, i, written)
        twice = _write(plain, i, x, written)
        grows = _array(size=1, dynamic_size=True)
        longer = _size(grows, _write(grows, i, x))
        strict = _array(element_shape=[None, 2])
        fits = _write(strict, i, x)
        alike = _array(identical_element_shapes=True)
        equal = _write(alike, const(i32(0)), x, _write(alike, i, f32([1, 2])))
        other = _write(_array("int32"), i, opaque(x))
        kept = _array(clear_after_read=False)
        flow = _write(kept, i, x)
        again = [_read(kept.handle, i, flow) for _ in range(2)]
        first = _read(plain.handle, i, written)
        with tf.control_dependencies([first]):
            second = _read(plain.handle, i, written)
            after_read = _write(plain, i, x, written)
        kept_read = _read(kept.handle, i, flow)
        with tf.control_dependencies([kept_read]):
            after_kept_read = _write(kept, i, x, flow)
    p.step(element, {i: 2, x: 5})
    p.step(element, {i: 3, x: 5}, error=True, note="behind the end")
    p.step(element, {i: -1, x: 5}, error=True, note="before the beginning")
    p.step(element, {i: [1], x: 5}, error=True, note="the index is a scalar")
    p.step(twice, {i: 0, x: 5}, error=True, note="written twice")
    p.step(longer, {i: 0, x: 1})
    p.step(longer, {i: 9, x: 1}, note="a dynamic array grows")
    p.step(longer, {i: -1, x: 1}, error=True)
    p.step(fits, {i: 0, x: [[1, 2]]})
    p.step(fits, {i: 0, x: [1, 2]}, error=True, note="not of the element shape")
    p.step(equal, {i: 1, x: [3, 4]})
    p.step(equal, {i: 1, x: [3]}, error=True, note="the first element's shape is that of all")
    p.step(other, {i: 0, x: 1}, error=True, note="another type")
    p.step(again, {i: 1, x: 7}, note="without clear_after_read")
    p.step(second, {i: 1, x: 7}, error=True, note="reading clears")
    p.step(after_read, {i: 1, x: 7}, error=True, note="written after it was read")
    p.step(after_kept_read, {i: 1, x: 7}, error=True, note="written after it was read")
    p.record()

    p = Program("TensorArrayReadV3", "never_written")
    with p:
        i = placeholder("int32", "i")
        unknown, known = _array(), _array(element_shape=[2])
        flow, known_flow = _fill(unknown, f32(1)), _fill(known, f32([1, 2]))
        of_unknown = _read(unknown.handle, i, flow)
        of_known = _read(known.handle, i, known_flow)
        ints = _read(opaque(_array("int32").handle), i, known_flow)
    p.step(of_unknown, {i: 0})
    p.step(of_unknown, {i: 1}, error=True)
    p.step(of_unknown, {i: 3}, error=True)
    p.step(of_known, {i: 2}, note="zeros")
    p.step(ints, {i: 0}, error=True, note="another type")
    p.record()

    p = Program("TensorArrayGatherV3", "shapes")
    with p:
        indices = placeholder("int32", "indices")
        a, mixed, known = _array(), _array(), _array(element_shape=[2])
        flow = _fill(a, f32([1, 2]), f32([3, 4]), f32([5, 6]))
        mixed_flow = _fill(mixed, f32([1, 2]), f32([3]), f32([4]))
        rows = _gather(a.handle, indices, flow)
        wrong = _gather(a.handle, indices, flow, shape=[3])
        unequal = _gather(mixed.handle, indices, mixed_flow)
        none = _gather(known.handle, indices, known.flow)
        stated = _gather(a.handle, indices, flow, shape=[2])
    p.step(rows, {indices: [2, 0]})
    p.step(rows, {indices: []}, error=True, note="no element tells the shape")
    p.step(rows, {indices: [0, 3]}, error=True)
    p.step(rows, {indices: [1, 1]}, error=True, note="reading clears")
    p.step(rows, {indices: 1}, error=True)
    p.step(wrong, {indices: [0]}, error=True)
    p.step(unequal, {indices: [1, 2]})
    p.step(unequal, {indices: [0, 1]}, error=True)
    p.step(none, {indices: [1, 2]}, note="zeros")
    p.step(stated, {indices: []})
    p.record()

    p = Program("TensorArrayConcatV3", "shapes")
    with p:
        a, mixed, scalars, empty = _array(), _array(), _array(), _array(size=0)
        flow = _fill(a, f32([[1, 2]]), f32([[3, 4], [5, 6]]), f32([[0, 0]])[:0])
        mixed_flow = _fill(mixed, f32([[1, 2]]), f32([[3]]), f32([[4]]))
        scalar_flow = _fill(scalars, f32(1), f32(2), f32(3))
        whole = _concat(a.handle, flow)
        wrong = _concat(a.handle, flow, shape=[3])
        unequal = _concat(mixed.handle, mixed_flow)
        no_rows = _concat(scalars.handle, scalar_flow)
        nothing = _concat(empty.handle, empty.flow)
        stated = _concat(empty.handle, empty.flow, shape=[2])
    p.step(list(whole))
    p.step(wrong.value, error=True)
    p.step(unequal.value, error=True)
    p.step(no_rows.value, error=True)
    p.step(nothing.value, error=True, note="no element tells the shape")
    p.step(list(stated))
    p.record()

    p = Program("TensorArrayScatterV3", "shapes")
    with p:
        indices, x = placeholder("int32", "indices"), placeholder("float32", "x")
        a, grows = _array(), _array(size=1, dynamic_size=True)

        def scatter(array_):
            return raw.TensorArrayScatterV3(handle=array_.handle, indices=indices, value=x,
                                            flow_in=array_.flow)

        flow = scatter(a)
        out = [_read(a.handle, const(i32(i)), flow) for i in (0, 2)]
        longer = _size(grows, scatter(grows))
    p.step(out, {indices: [2, 0], x: [[1, 2], [3, 4]]})
    p.step(flow, {indices: [2], x: [[1, 2], [3, 4]]}, error=True, note="not a row an index")
    p.step(flow, {indices: [2], x: 1}, error=True)
    p.step(flow, {indices: 2, x: [1]}, error=True)
    p.step(flow, {indices: [3], x: [1]}, error=True)
    p.step(flow, {indices: [1, 1], x: [1, 2]}, error=True)
    p.step(longer, {indices: [4, 1], x: [1, 2]})
    p.record()

    p = Program("TensorArraySplitV3", "shapes")
    with p:
        lengths, x = placeholder("int64", "lengths"), placeholder("float32", "x")
        a, grows = _array(), _array(size=1, dynamic_size=True)

        def split(array_):
            return raw.TensorArraySplitV3(handle=array_.handle, value=x, lengths=lengths,
                                          flow_in=array_.flow)

        flow = split(a)
        out = [_read(a.handle, const(i32(i)), flow) for i in range(3)]
        longer = _size(grows, split(grows))
    p.step(out, {lengths: [2, 0, 1], x: [[1, 2], [3, 4], [5, 6]]})
    p.step(flow, {lengths: [2, 0, 2], x: [1, 2, 3]}, error=True, note="not all rows, or too many")
    p.step(flow, {lengths: [1, 2], x: [1, 2, 3]}, error=True, note="not a length an element")
    p.step(flow, {lengths: 3, x: [1, 2, 3]}, error=True)
    p.step(flow, {lengths: [1, 0, 0], x: 1}, error=True)
    p.step(longer, {lengths: [1, 2], x: [1, 2, 3]})
    p.record()

    p = Program("TensorArrayCloseV3", "closed")
    with p:
        a = _array()
        flow = _fill(a, f32(1))
        with tf.control_dependencies([flow]):
            close = raw.TensorArrayCloseV3(handle=a.handle)
        with tf.control_dependencies([close]):
            late = [_read(a.handle, const(i32(0)), flow), _write(a, const(i32(1)), f32(2), flow),
                    _size(a, flow), raw.TensorArrayGradV3(handle=a.handle, flow_in=flow,
                                                          source="g").flow_out]
    p.step(target=close)
    for x in late:
        p.step(x, error=True)
    p.record()


def _gradients():
    p = Program("TensorArrayGradV3", "adds")
    with p:
        i, x = placeholder("int32", "i"), placeholder("float32", "x")
        a = _array(dynamic_size=True)
        flow = _fill(a, f32([1, 2]), f32([3, 4]), f32([5, 6]))
        g = raw.TensorArrayGradV3(handle=a.handle, flow_in=flow, source="gradients")
        same = raw.TensorArrayGradV3(handle=a.handle, flow_in=g.flow_out, source="gradients")
        other = raw.TensorArrayGradV3(handle=a.handle, flow_in=g.flow_out, source="others")

        def write(handle, value, flow_):
            return raw.TensorArrayWriteV3(handle=handle, index=i, value=value, flow_in=flow_)

        once = write(g.grad_handle, x, g.flow_out)
        sum_flow = write(same.grad_handle, x, once)
        total = _read(g.grad_handle, i, sum_flow)
        of_others = _read(other.grad_handle, i, sum_flow)
        size = raw.TensorArraySizeV3(handle=g.grad_handle, flow_in=sum_flow)
        unlike = write(g.grad_handle, f32([1]), once)
        grow = _write(a, const(i32(3)), f32([1, 2]), g.flow_out)
    p.step([total, size], {i: 1, x: [10, 20]}, note="what is written twice is added")
    p.step(of_others, {i: 1, x: [10, 20]}, note="another source; what is missing is zeros")
    p.step(total, {i: 3, x: [10, 20]}, error=True)
    p.step(unlike, {i: 1, x: [10, 20]}, error=True, note="shapes that do not add")
    p.step(grow, error=True, note="an array with gradients keeps its size")
    p.record()

    p = Program("TensorArrayGradWithShape", "prepends")
    with p:
        a = _array(size=2)
        flow = _fill(a, f32([1, 2]), f32([3, 4, 5]))
        g = raw.TensorArrayGradWithShape(handle=a.handle, flow_in=flow, source="gradients",
                                         shape_to_prepend=const(i32([3])))
        out = [_read(g.grad_handle, const(i32(k)), g.flow_out) for k in range(2)]
    p.step(out)
    p.record()

    for name, build in (
            ("of_a_loop", lambda x: tf.while_loop(lambda i, y: i < 4, lambda i, y:
                                                  (i + 1, tf.sin(y) * x), [0, x])[1]),
            ("of_nested_loops", lambda x: tf.while_loop(
                lambda i, y: i < 3, lambda i, y:
                (i + 1, tf.while_loop(lambda j, z: j < i, lambda j, z:
                                      (j + 1, z * tf.cos(x)), [0, y])[1] + x), [0, x])[1]),
            ("of_a_branch_in_a_loop", lambda x: tf.while_loop(
                lambda i, y: i < 5, lambda i, y:
                (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * x, lambda: tf.exp(-y))),
                [0, x])[1])):
        p = Program("StackV2", name)
        with p, old_style():
            x = placeholder("float32", "x", [3])
            y = build(x)
            dx = tf.gradients(y, x)[0]
        p.step([y, dx], {x: [0.5, -0.25, 1.5]})
        p.record()

    for name, build in (
            ("map_fn", lambda x: tf.map_fn(lambda row: tf.reduce_sum(row * row) * row, x)),
            ("scan", lambda x: tf.scan(lambda sum_, row: sum_ * 0.5 + row, x)),
            ("foldl", lambda x: tf.foldl(lambda sum_, row: sum_ * row, x))):
        p = Program("TensorArrayV3", name)
        with p, old_style():
            x = placeholder("float32", "x", [None, 2])
            y = build(x)
            dx = tf.gradients(y, x)[0]
        p.step([y, dx], {x: [[0.5, -0.25], [1.5, 2], [3, 0.125]]})
        p.record()


def generate():
    _stacks()
    _types()
    _arrays()
    _gradients()
