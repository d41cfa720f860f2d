"""Faulty graphs raise in TensorFlow's client what they raise with TensorFlow's own server."""

import unittest

import numpy as np
import tensorflow as tf

from cluster import Cluster

v1 = tf.compat.v1
raw = tf.raw_ops


def value(array):
    """A value whose shape the client does not know, so that only the server can refuse it."""
    return v1.placeholder_with_default(tf.constant(array), None)


def fed(shape=()):
    return value(np.zeros(shape, np.float32))


FAULTS = []


def fault(make):
    """`make` builds a graph and returns what is to be fetched."""
    FAULTS.append(make)
    return make


@fault
def matrices_that_do_not_fit():
    return tf.matmul(fed(shape=[2, 3]), fed(shape=[4, 5]))


@fault
def product_of_a_vector():
    return raw.MatMul(a=fed(shape=[3]), b=fed(shape=[3, 3]))


@fault
def sum_that_does_not_broadcast():
    return fed(shape=[2, 3]) + fed(shape=[4])


@fault
def placeholder_that_is_not_fed():
    return v1.placeholder(tf.float32, []) * 2.0


@fault
def variable_that_is_not_initialized():
    return v1.get_variable("v", [2], use_resource=True).read_value()


@fault
def variable_of_the_first_version_that_is_not_initialized():
    return tf.identity(v1.get_variable("v", [2], use_resource=False))


@fault
def variable_assigned_another_shape():
    v = v1.get_variable("v", initializer=tf.zeros([2]), use_resource=True)
    with tf.control_dependencies([v.initializer]):
        return raw.AssignVariableOp(resource=v.handle, value=fed(shape=[3]), validate_shape=True)


@fault
def variable_of_another_type():
    v = v1.get_variable("v", initializer=tf.zeros([2]), use_resource=True)
    with tf.control_dependencies([v.initializer]):
        same = raw.VarHandleOp(dtype=tf.int32, shape=[2], shared_name="v")
        return raw.ReadVariableOp(resource=same, dtype=tf.int32)


@fault
def row_that_is_not_there():
    return tf.gather(fed(shape=[3, 2]), value([0, 7]))


@fault
def negative_row():
    return tf.gather(fed(shape=[3, 2]), value([-1]))


@fault
def index_outside_in_gather_nd():
    return tf.gather_nd(fed(shape=[3, 2]), value([[5, 0]]))


@fault
def reshape_to_another_size():
    return tf.reshape(fed(shape=[6]), value([4, 2]))


@fault
def reshape_with_two_unknowns():
    return tf.reshape(fed(shape=[6]), value([-1, -1]))


@fault
def concatenation_of_other_ranks():
    return tf.concat([fed(shape=[2, 2]), fed(shape=[2])], 0)


@fault
def concatenation_along_no_axis():
    return raw.ConcatV2(values=[fed(shape=[2]), fed(shape=[2])], axis=value(3))


@fault
def slice_that_reaches_outside():
    return tf.slice(fed(shape=[4]), value([2]), value([5]))


@fault
def split_that_leaves_a_rest():
    return raw.Split(axis=value(0), value=fed(shape=[5]), num_split=2)


@fault
def transposition_that_repeats_an_axis():
    return tf.transpose(fed(shape=[2, 3]), value([0, 0]))


@fault
def reduction_of_an_axis_that_is_not_there():
    return tf.reduce_sum(fed(shape=[2, 3]), axis=value([5]))


@fault
def division_of_integers_by_zero():
    return tf.math.floordiv(value([1, 2]), value([1, 0]))


@fault
def numbers_that_are_not_finite():
    return tf.debugging.check_numerics(value([1.0, np.inf]), "what was found")


@fault
def assertion_that_fails():
    with tf.control_dependencies([tf.debugging.Assert(value(False), [value([1, 2])])]):
        return tf.constant(1)


@fault
def label_that_is_no_class():
    return raw.SparseSoftmaxCrossEntropyWithLogits(
        features=fed(shape=[2, 3]), labels=value([0, 3])).loss


@fault
def labels_of_another_number():
    return raw.SparseSoftmaxCrossEntropyWithLogits(
        features=fed(shape=[2, 3]), labels=value([0])).loss


@fault
def convolution_of_other_channels():
    return raw.Conv2D(input=fed(shape=[1, 4, 4, 3]), filter=fed(shape=[2, 2, 4, 5]),
                      strides=[1, 1, 1, 1], padding="VALID")


@fault
def convolution_of_a_matrix():
    return raw.Conv2D(input=fed(shape=[4, 4]), filter=fed(shape=[2, 2, 4, 5]),
                      strides=[1, 1, 1, 1], padding="VALID")


@fault
def filter_larger_than_the_image():
    return raw.Conv2D(input=fed(shape=[1, 1, 1, 1]), filter=fed(shape=[3, 3, 1, 1]),
                      strides=[1, 1, 1, 1], padding="VALID")


@fault
def queue_that_is_closed():
    queue = v1.FIFOQueue(3, [tf.float32], [[]])
    with tf.control_dependencies([queue.close()]):
        return queue.dequeue()


@fault
def checkpoint_that_is_not_there():
    return raw.RestoreV2(prefix=value("/no/such/checkpoint"), tensor_names=value(["v"]),
                         shape_and_slices=value([""]), dtypes=[tf.float32])


@fault
def device_that_is_not_there():
    with tf.device("/job:worker/task:7"):
        return tf.constant(1.0) + 1.0


@fault
def device_of_a_type_that_is_not_there():
    with tf.device("/device:GPU:0"):
        return fed() + 1.0


@fault
def random_numbers_of_a_negative_shape():
    return raw.RandomUniform(shape=value([-2]), dtype=tf.float32)


@fault
def range_that_never_ends():
    return tf.range(value(0), value(10), value(0))


@fault
def fill_of_a_negative_shape():
    return tf.fill(value([-1]), 1.0)


@fault
def one_hot_of_a_negative_depth():
    return tf.one_hot(value([1]), value(-3))


@fault
def tile_by_a_vector_of_another_length():
    return tf.tile(fed(shape=[2, 2]), value([2]))


@fault
def expansion_at_no_axis():
    return raw.ExpandDims(input=fed(shape=[2]), axis=value(4))


@fault
def squeeze_of_two_elements():
    return raw.Squeeze(input=fed(shape=[2]), axis=[0])


@fault
def packed_values_of_other_shapes():
    return tf.stack([fed(shape=[2]), fed(shape=[3])])


@fault
def fault_in_the_branch_that_is_taken():
    x = fed(shape=[2, 3])
    return tf.cond(value(True), lambda: tf.matmul(x, x), lambda: x)


@fault
def fault_in_the_body_of_a_loop():
    x = fed(shape=[2, 3])
    return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.matmul(x, y)), [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])


@fault
def top_of_more_than_there_are():
    return raw.TopKV2(input=fed(shape=[2]), k=value(3)).values


@fault
def segment_ids_that_fall():
    return tf.math.segment_sum(fed(shape=[3]), value([1, 0, 2]))


@fault
def value_of_the_branch_that_is_not_taken():
    no, _ = raw.Switch(data=fed(), pred=value(True))
    return tf.identity(no)


@fault
def ops_in_a_circle():
    x = fed()
    first = x + 1.0
    second = first * 2.0
    first.op._update_input(0, second)  # The client does not check.
    return second


class ErrorClassTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.tandem = Cluster({"worker": 1})
        cls.addClassCleanup(cls.tandem.close)
        cls.tensorflow = Cluster({"worker": 1}, tensorflow={"worker:0": 1})
        cls.addClassCleanup(cls.tensorflow.close)

    def outcome(self, cluster, make):
        """The exception, or None."""
        with tf.Graph().as_default(), \
                cluster.session("worker:0", isolate_session_state=True) as session:
            try:
                session.run(make())
            except tf.errors.OpError as error:
                return error
            return None

    def test_faults_raise_what_they_raise_with_tensorflows_server(self):
        self.assertGreaterEqual(len(FAULTS), 30)
        for make in FAULTS:
            with self.subTest(make.__name__):
                found, wanted = (self.outcome(cluster, make)
                                 for cluster in (self.tandem, self.tensorflow))
                self.assertIsNotNone(wanted)
                self.assertIs(type(found), type(wanted), f"Tandem: {found}\nTensorFlow: {wanted}")
                # A missing op may have the class that is wanted.
                self.assertNotIn("there is no op", found.message)
                if wanted.op is not None:
                    self.assertEqual(found.op and found.op.name, wanted.op.name)
