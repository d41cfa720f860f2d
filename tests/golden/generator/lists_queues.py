"""Tensor lists and queues. Both live in handles, so every case is a program."""

import numpy as np

from . import optable, values
from .control_flow import placeholder
from .base import array, tf
from .harness import rng
from .program import Program
from .state import const, raw


def i32(x):
    return array(x, "int32")


def shape_of(*dims):
    return const(i32(list(dims)))


ANY = -1  # as an element shape: of any shape


def opaque(handle):
    """The handle by way of a Merge, so that shape inference knows nothing of it and the kernel
    itself meets the wrong type."""
    return raw.Merge(inputs=[handle]).output


def _lists():

    def types(op):
        return [t for t in optable.ALL if t in optable.kernel_types(op, "element_dtype")]

    # From a tensor and back, each type.
    for op in ("TensorListFromTensor", "TensorListStack", "TensorListGetItem", "TensorListPopBack",
               "TensorListSetItem", "TensorListPushBack"):
        for t in types(op):
            p = Program(op, t, exact=True)
            with p:
                d = tf.as_dtype(t)
                x = values.ordinary(rng(op, t), (3, 2), t)
                item = const(values.ordinary(rng(op, t + "i"), (2,), t))
                l = raw.TensorListFromTensor(tensor=const(x), element_shape=shape_of(2))
                if op == "TensorListPushBack":
                    l = raw.TensorListPushBack(input_handle=l, tensor=item)
                if op == "TensorListSetItem":
                    l = raw.TensorListSetItem(input_handle=l, index=const(i32(1)), item=item)
                out = []
                if op == "TensorListPopBack":
                    pop = raw.TensorListPopBack(input_handle=l,
                                                element_shape=shape_of(2),
                                                element_dtype=d)
                    l = pop.output_handle
                    out.append(pop.tensor)
                if op == "TensorListGetItem":
                    out.append(
                        raw.TensorListGetItem(input_handle=l,
                                              index=const(i32(2)),
                                              element_shape=shape_of(2),
                                              element_dtype=d))
                out.append(
                    raw.TensorListStack(input_handle=l, element_shape=shape_of(2), element_dtype=d))
                out.append(raw.TensorListLength(input_handle=l))
            p.step(out)
            p.record()
    for op in ("EmptyTensorList", "TensorListLength"):
        p = Program(op, "push_and_pop")
        with p:
            l = raw.EmptyTensorList(element_shape=shape_of(2),
                                    max_num_elements=const(i32(-1)),
                                    element_dtype=tf.float32)
            none = raw.TensorListLength(input_handle=l)
            empty = raw.TensorListStack(input_handle=l,
                                        element_shape=shape_of(2),
                                        element_dtype=tf.float32)
            a = raw.TensorListPushBack(input_handle=l, tensor=const(array([1, 2], "float32")))
            b = raw.TensorListPushBack(input_handle=a, tensor=const(array([3, 4], "float32")))
            other = raw.TensorListPushBack(input_handle=a, tensor=const(array([5, 6], "float32")))
            stacks = [
                raw.TensorListStack(input_handle=h,
                                    element_shape=shape_of(2),
                                    element_dtype=tf.float32) for h in (a, b, other)
            ]
            pop = raw.TensorListPopBack(input_handle=b,
                                        element_shape=shape_of(2),
                                        element_dtype=tf.float32)
            lengths = [raw.TensorListLength(input_handle=h) for h in (a, b, pop.output_handle)]
            too_far = raw.TensorListPopBack(input_handle=l,
                                            element_shape=shape_of(2),
                                            element_dtype=tf.float32)
        p.step([none, empty])
        p.step(stacks, note="a list is a value: adding to one leaves the others alone")
        p.step([pop.tensor] + lengths)
        p.step(too_far.tensor, error=True, note="nothing left")
        p.record()
    for op in ("EmptyTensorList", "TensorListReserve"):
        for t in optable.ALL:
            p = Program(op, t, exact=True)
            with p:
                d, shape = tf.as_dtype(t), const(array([2], "int64"))
                item = const(values.ordinary(rng(op, t), (2,), t))
                if op == "EmptyTensorList":
                    l = raw.EmptyTensorList(element_shape=shape,
                                            max_num_elements=const(i32(3)),
                                            element_dtype=d)
                    l = raw.TensorListPushBack(input_handle=l, tensor=item)
                else:
                    l = raw.TensorListReserve(element_shape=shape,
                                              num_elements=const(i32(2)),
                                              element_dtype=d)
                    l = raw.TensorListSetItem(input_handle=l, index=const(i32(0)), item=item)
                out = [
                    raw.TensorListStack(input_handle=l, element_shape=shape_of(2), element_dtype=d),
                    raw.TensorListElementShape(input_handle=l, shape_type=tf.int64)
                ]
            p.step(out,
                   note=""
                   if op == "EmptyTensorList" else "what was not set is zero, or the empty string")
            p.record()
    op = "EmptyTensorList"
    p = Program(op, "limit_and_shapes")
    with p:
        x = placeholder("float32", "x")
        l = raw.EmptyTensorList(element_shape=const(i32(ANY)),
                                max_num_elements=const(i32(1)),
                                element_dtype=tf.float32)
        one = raw.TensorListPushBack(input_handle=l, tensor=x)
        two = raw.TensorListPushBack(input_handle=one, tensor=x)
        strict = raw.EmptyTensorList(element_shape=shape_of(-1, 2),
                                     max_num_elements=const(i32(-1)),
                                     element_dtype=tf.float32)
        pushed = raw.TensorListPushBack(input_handle=strict, tensor=x)
        wrong_type = raw.TensorListPushBack(input_handle=opaque(l), tensor=const(i32(1)))
        lengths = [raw.TensorListLength(input_handle=h) for h in (one, two, pushed, wrong_type)]
    p.step(lengths[0], {x: [1, 2]})
    p.step(lengths[1], {x: [1, 2]}, error=True, note="more than max_num_elements")
    p.step(lengths[2], {x: [[1, 2]]})
    p.step(lengths[2], {x: [1, 2]}, error=True, note="not of the element shape")
    p.step(lengths[3], error=True, note="not of the element type")
    p.record()
    op = "TensorListReserve"
    p = Program(op, "set_and_get")
    with p:
        n = placeholder("int32", "n")
        i = placeholder("int32", "i")
        l = raw.TensorListReserve(element_shape=shape_of(2),
                                  num_elements=n,
                                  element_dtype=tf.float32)
        l1 = raw.TensorListSetItem(input_handle=l, index=i, item=const(array([1, 2], "float32")))
        stack = raw.TensorListStack(input_handle=l1,
                                    element_shape=shape_of(2),
                                    element_dtype=tf.float32)
        got = raw.TensorListGetItem(input_handle=l,
                                    index=i,
                                    element_shape=shape_of(2),
                                    element_dtype=tf.float32)
        length = raw.TensorListLength(input_handle=l1)
    p.step([stack, length], {n: i32(3), i: i32(1)}, note="what was not set is zero")
    p.step(got, {n: i32(3), i: i32(1)}, note="and so is what is read")
    p.step(stack, {n: i32(3), i: i32(3)}, error=True)
    p.step(stack, {n: i32(3), i: i32(-1)}, error=True)
    p.step(stack, {n: i32(-1), i: i32(0)}, error=True)
    p.record()
    op = "TensorListSetItem"
    p = Program(op, "resizes")
    with p:
        i = placeholder("int32", "i")
        l = raw.TensorListReserve(element_shape=shape_of(2),
                                  num_elements=const(i32(1)),
                                  element_dtype=tf.float32)
        l = raw.TensorListSetItem(input_handle=l,
                                  index=i,
                                  item=const(array([1, 2], "float32")),
                                  resize_if_index_out_of_bounds=True)
        stack = raw.TensorListStack(input_handle=l,
                                    element_shape=shape_of(2),
                                    element_dtype=tf.float32)
    p.step(stack, {i: i32(0)})
    p.step(stack, {i: i32(3)})
    p.record()
    p = Program(op, "errors")
    with p:
        l = raw.TensorListFromTensor(tensor=const(np.ones((3, 2), np.float32)),
                                     element_shape=shape_of(2))
        x = placeholder("float32", "x")
        wrong_shape = raw.TensorListLength(
            input_handle=raw.TensorListSetItem(input_handle=l, index=const(i32(0)), item=x))
        wrong_type = raw.TensorListLength(input_handle=raw.TensorListSetItem(
            input_handle=opaque(l), index=const(i32(0)), item=const(array([1, 2], "float64"))))
    p.step(wrong_shape, {x: [1, 2]})
    p.step(wrong_shape, {x: [1, 2, 3]}, error=True)
    p.step(wrong_type, error=True)
    p.record()
    op = "TensorListElementShape"
    p = Program(op, "shapes")
    with p:
        out = []
        for shape in (shape_of(2, 3), shape_of(-1, 3), const(i32(ANY)), shape_of()):
            l = raw.EmptyTensorList(element_shape=shape,
                                    max_num_elements=const(i32(-1)),
                                    element_dtype=tf.float32)
            for t in (tf.int32, tf.int64):
                out.append(raw.TensorListElementShape(input_handle=l, shape_type=t))
    p.step(out, note="unknown sizes are -1; a scalar -1 is an unknown rank")
    p.record()
    op = "TensorListStack"
    p = Program(op, "shapes_and_errors")
    with p:
        x = placeholder("float32", "x")
        e = raw.EmptyTensorList(element_shape=const(i32(ANY)),
                                max_num_elements=const(i32(-1)),
                                element_dtype=tf.float32)
        uneven = raw.TensorListPushBack(input_handle=raw.TensorListPushBack(input_handle=e,
                                                                            tensor=x),
                                        tensor=const(array([1, 2], "float32")))
        stack = raw.TensorListStack(input_handle=uneven,
                                    element_shape=const(i32(ANY)),
                                    element_dtype=tf.float32)
        counted = raw.TensorListStack(input_handle=uneven,
                                      element_shape=shape_of(2),
                                      element_dtype=tf.float32,
                                      num_elements=3)
        empty = raw.TensorListStack(input_handle=e,
                                    element_shape=const(i32(ANY)),
                                    element_dtype=tf.float32)
        empty_known = raw.TensorListStack(input_handle=e,
                                          element_shape=shape_of(3),
                                          element_dtype=tf.float32)
        other_type = raw.TensorListStack(input_handle=opaque(e),
                                         element_shape=shape_of(3),
                                         element_dtype=tf.int32)
    p.step(stack, {x: [3, 4]})
    p.step(stack, {x: [3, 4, 5]}, error=True, note="the elements have different shapes")
    p.step(counted, {x: [3, 4]}, error=True, note="two elements, three announced")
    p.step(empty, error=True, note="no elements and no known shape")
    p.step(empty_known)
    p.step(other_type, error=True)
    p.record()
    op = "TensorListFromTensor"
    p = Program(op, "shapes_and_errors")
    with p:
        x = placeholder("float32", "x")
        l = raw.TensorListFromTensor(tensor=x, element_shape=shape_of(-1, 2))
        out = [
            raw.TensorListLength(input_handle=l),
            raw.TensorListStack(input_handle=l,
                                element_shape=shape_of(-1, 2),
                                element_dtype=tf.float32)
        ]
    p.step(out, {x: np.arange(12, dtype=np.float32).reshape(3, 2, 2)})
    p.step(out[0], {x: np.zeros((0, 1, 2), np.float32)})
    p.step(out, {x: np.zeros((3, 2, 3), np.float32)}, error=True, note="another element shape")
    p.step(out, {x: array(1, "float32")}, error=True, note="a scalar")
    p.record()
    op = "TensorListGetItem"
    p = Program(op, "errors")
    with p:
        i = placeholder("int32", "i")
        l = raw.TensorListFromTensor(tensor=const(np.arange(6, dtype=np.float32).reshape(3, 2)),
                                     element_shape=shape_of(2))
        item = raw.TensorListGetItem(input_handle=l,
                                     index=i,
                                     element_shape=shape_of(2),
                                     element_dtype=tf.float32)
        dtype = raw.TensorListGetItem(input_handle=opaque(l),
                                      index=i,
                                      element_shape=shape_of(2),
                                      element_dtype=tf.int32)
    p.step(item, {i: i32(2)})
    for index in (3, -1):
        p.step(item, {i: i32(index)}, error=True)
    p.step(dtype, {i: i32(0)}, error=True, note="another type")
    p.record()


def _queue(types, shapes=(), capacity=-1, name="q"):
    return raw.FIFOQueueV2(component_types=[tf.as_dtype(t) for t in types],
                           shapes=[tf.TensorShape(s) for s in shapes],
                           capacity=capacity,
                           shared_name=name,
                           name=name)


def _queues():
    for op in ("FIFOQueueV2", "QueueEnqueueV2", "QueueDequeueV2", "QueueSizeV2"):
        p = Program(op, "first_in_first_out")
        with p:
            x = placeholder("float32", "x")
            q = _queue(["float32"])
            put = raw.QueueEnqueueV2(handle=q, components=[x])
            get = raw.QueueDequeueV2(handle=q, component_types=[tf.float32])
            size = raw.QueueSizeV2(handle=q)
        p.step(size)
        for v in (array([1, 2], "float32"), array(3, "float32"), array([[4]], "float32")):
            p.step(target=put, feed={x: v})
        p.step(size)
        p.step(get)
        p.step(get)
        p.step(size)
        p.step(target=put, feed={x: array([5], "float32")})
        p.step(get)
        p.step(get)
        p.step(size)
        p.record()
    for t in optable.ALL:
        for op in ("QueueEnqueueV2", "QueueDequeueV2"):
            p = Program(op, t, exact=True)
            with p:
                q = _queue([t, "int32"])
                put = raw.QueueEnqueueV2(
                    handle=q,
                    components=[const(values.ordinary(rng(op, t), (2,), t)),
                                const(i32(7))])
                get = raw.QueueDequeueV2(handle=q, component_types=[tf.as_dtype(t), tf.int32])
            p.step(target=put)
            p.step(get)
            p.record()
    p = Program("QueueEnqueueV2", "fixed_shapes")
    with p:
        x = placeholder("float32", "x")
        q = _queue(["float32", "string"], [[2], []])
        put = raw.QueueEnqueueV2(handle=q, components=[x, const(array(b"s", "string"))])
        one = raw.QueueEnqueueV2(handle=q, components=[x])
        types = raw.QueueEnqueueV2(handle=q,
                                   components=[const(i32([1, 2])),
                                               const(array(b"s", "string"))])
        size = raw.QueueSizeV2(handle=q)
    p.step(target=put, feed={x: [1, 2]})
    p.step(target=put, feed={x: [1, 2, 3]}, error=True, note="not the shape of the queue")
    p.step(target=one, feed={x: [1, 2]}, error=True, note="one component of two")
    p.step(target=types, error=True, note="another type")
    p.step(size)
    p.record()
    p = Program("QueueDequeueV2", "waits_for_an_enqueue_of_the_same_step")
    with p:
        q = _queue(["int32"], capacity=1)
        first = raw.QueueEnqueueV2(handle=q, components=[const(i32(1))])
        with tf.control_dependencies([first]):
            second = raw.QueueEnqueueV2(handle=q, components=[const(i32(2))])
        got = raw.QueueDequeueV2(handle=q, component_types=[tf.int32])
        with tf.control_dependencies([got[0]]):
            again = raw.QueueDequeueV2(handle=q, component_types=[tf.int32])
    p.step([got[0], again[0]], target=[second], note="capacity 1: each waits for the other in turn")
    p.record()
    p = Program("QueueDequeueV2", "component_types")
    with p:
        q = _queue(["int32", "float32"])
        put = raw.QueueEnqueueV2(handle=q, components=[const(i32(1)), const(array(2, "float32"))])
        wrong = raw.QueueDequeueV2(handle=q, component_types=[tf.float32, tf.int32])
        right = raw.QueueDequeueV2(handle=q, component_types=[tf.int32, tf.float32])
    p.step(target=put)
    p.step(wrong[0], error=True)
    p.step([right[1], right[0]])
    p.record()
    for cancel in (False, True):
        p = Program("QueueCloseV2", "cancelling" if cancel else "draining")
        with p:
            q = _queue(["int32"])
            put = raw.QueueEnqueueV2(handle=q, components=[const(i32(4))])
            get = raw.QueueDequeueV2(handle=q, component_types=[tf.int32])
            close = raw.QueueCloseV2(handle=q, cancel_pending_enqueues=cancel)
            size = raw.QueueSizeV2(handle=q)
        p.step(target=put)
        p.step(target=close)
        p.step(size)
        p.step(target=put, error=True, note="closed")
        p.step(get, note="what is in it can be taken out")
        p.step(get, error=True, note="closed and empty")
        p.step(target=close, error=not cancel, note="once more")
        p.record()
    p = Program("FIFOQueueV2", "shared_name")
    with p:
        a, b = _queue(["int32"], name="one"), raw.FIFOQueueV2(component_types=[tf.int32],
                                                              shared_name="one",
                                                              name="b")
        other = raw.FIFOQueueV2(component_types=[tf.int32], shared_name="two", name="c")
        put = raw.QueueEnqueueV2(handle=a, components=[const(i32(4))])
        sizes = [raw.QueueSizeV2(handle=h) for h in (b, other)]
        clash = raw.QueueSizeV2(
            handle=raw.FIFOQueueV2(component_types=[tf.float32], shared_name="one", name="d"))
    p.step(target=put)
    p.step(sizes)
    p.step(clash, error=True, note="the queue of that name has other types")
    p.record()


def generate():
    _lists()
    _queues()
