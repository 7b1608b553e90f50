"""A `tf.data.Dataset` of the driver's as a graph that executors run, each its share of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, node_def_pb2, types_pb2
from tensorflow.python.framework import op_def_registry

from ..blocks.block import Columns
from ..blocks.naming import Field
from ..runtime.eager import eagerly
from .described import DatasetContext
from .tf_data import Order, columns_in, ordered

GRAPH_BYTES = 1 << 26
"""Of a graph that is sent to executors, with the arrays that are in it."""

HERE_ONLY = ("PyFunc", "PyFuncStateless", "EagerPyFunc", "GeneratorDataset")
"""Operations that call Python's functions of this process."""

PASSED = (
    *("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2"),
    *("PrefetchDataset", "OptionsDataset", "ModelDataset"),
)
"""Operations that make one element of each, and so may follow the choice of elements."""

BATCHES = "BatchDatasetV2", "ParallelBatchDataset"

RESHUFFLE = "reshuffle_each_iteration"

IGNORE = 1
"""TensorFlow's policy for operations with state: it does not refuse them."""

NO_GRAPH = "TensorFlow cannot write it as a graph that another process can read"

SEEDS = "seed", "seed2"


def read(content: bytes, spec: Any, batched: bool, context: DatasetContext) -> Any:
    """Return a partition's share of a dataset; see `tos_notebook.data.datasets.GraphDataset`."""
    graph = graph_pb2.GraphDef.FromString(content)
    one_by_one(graph)
    below = shard(graph, context.partitions, context.partition, batched)
    own = _called_after(graph, below or ()) if context.partitions > 1 else set()
    for number, (name, nodes) in enumerate(_in_order(graph)):
        scope = context.seed, number, context.epoch
        seed(nodes, scope, context.partition if name in own else None)
    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph.SerializeToString())
    dataset = tf.data.experimental.from_variant(variant, spec)
    if batched:
        dataset = dataset.unbatch()
    if below is None:
        return dataset.shard(context.partitions, context.partition)
    return dataset


def written(dataset: Any, batched: bool) -> tuple[bytes, str]:
    """Return a dataset as a graph that other processes can `read`, or why there is none."""
    with eagerly():
        variant = tf.data.experimental.to_variant(dataset)
        try:
            content: bytes = tf.raw_ops.DatasetToGraphV2(
                input_dataset=variant, external_state_policy=IGNORE, strip_device_assignment=True
            ).numpy()
        except tf.errors.OpError:
            return b"", NO_GRAPH
    if len(content) > GRAPH_BYTES:
        return b"", f"it holds {len(content) / 2**20:,.0f} MiB"
    graph = graph_pb2.GraphDef.FromString(content)
    found = {node.op for nodes in _scopes(graph) for node in nodes}
    if found.intersection(HERE_ONLY):
        return b"", "it calls a generator or another function of Python's"
    _without_handles(graph)
    if any(map(_is_handle, graph.node)):
        return b"", "it uses objects of this process"
    content = graph.SerializeToString()
    try:
        with eagerly():
            read(content, dataset.element_spec, batched, DatasetContext(0, 2, 1, 0))
    except (tf.errors.OpError, ValueError):
        return b"", NO_GRAPH
    return content, ""


def _scopes(graph: Any) -> Iterator[Sequence[Any]]:
    yield graph.node
    for function in graph.library.function:
        yield function.node_def


def _functions_of(nodes: Iterable[Any]) -> list[str]:
    """Return the names of the functions that operations call, in order."""
    return [
        value.name
        for node in nodes
        for _, attr in sorted(node.attr.items())
        for value in (attr.func, *attr.list.func)
        if value.name
    ]


def _called(graph: Any, nodes: Iterable[Any]) -> dict[str, Sequence[Any]]:
    """Return the functions that operations call, also inside of these, in order."""
    bodies = {function.signature.name: function.node_def for function in graph.library.function}
    found: dict[str, Sequence[Any]] = {}
    wanted = _functions_of(nodes)
    while wanted:
        name = wanted.pop(0)
        if name in bodies and name not in found:
            found[name] = bodies[name]
            wanted += _functions_of(bodies[name])
    return found


def _called_after(graph: Any, below: Sequence[Any]) -> set[str]:
    """Return the functions that see a partition's rows alone."""
    names = {node.name for node in below}
    others = [node for node in graph.node if node.name not in names]
    return _called(graph, below).keys() - _called(graph, others).keys()


def _in_order(graph: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the graph's operations and those of each function, by name.

    In the order of their use, since the order of the library differs from process to process.
    """
    yield "", graph.node
    yield from _called(graph, graph.node).items()


def _is_handle(node: Any) -> bool:
    return bool(node.op == "Const" and node.attr["dtype"].type == types_pb2.DT_RESOURCE)


def _without_handles(graph: Any) -> None:
    """Replace what refers to objects of this process by what makes its own; leave caches out.

    A cache would last for one epoch, and be empty in the next.
    """
    names = {}
    for node in graph.node:
        if node.op == "ShuffleDatasetV3":
            node.op = "ShuffleDataset"
            del node.input[-1]
        elif node.op in ("CacheDataset", "CacheDatasetV2"):
            names[node.name] = node.input[0]
    for node in graph.node:
        for place, name in enumerate(node.input):
            while name in names:
                name = names[name]
            node.input[place] = name
    kept = [node for node in graph.node if node.name not in names]
    used = {name.lstrip("^").split(":")[0] for node in kept for name in node.input}
    kept = [node for node in kept if node.name in used or not _is_handle(node)]
    del graph.node[:]
    graph.node.extend(kept)


def seed(nodes: Sequence[Any], scope: tuple[int, int, int], partition: int | None) -> None:
    """Give seeds to what draws at random, by which it draws another thing in each epoch.

    The order in which parallel calls end no longer decides that of elements.

    Parameters
    ----------
    nodes : sequence of NodeDef
        Of a graph, or of a function in it; changed.
    scope : tuple of int
        The run's seed, the number of these nodes among those of the graph, and the epoch.
    partition : int, optional
        For what sees a partition's rows alone: partitions draw differently.
    """
    run, place, epoch = scope
    own = () if partition is None else (partition,)
    constants = {node.name: node for node in nodes if node.op == "Const"}
    for number, node in enumerate(nodes):
        if "deterministic" in node.attr and node.attr["deterministic"].s == b"false":
            node.attr["deterministic"].s = b"true"
        given = _seeds(node, constants)
        # What is shuffled once, or by a seed, is in the same order in every epoch.
        once = RESHUFFLE in node.attr and not node.attr[RESHUFFLE].b
        drawn = 0 if once else epoch
        if given is None or (any(given) and not drawn and not own):
            continue
        values = np.random.SeedSequence((run, place, drawn, number, *own, *given)).generate_state(2)
        _set_seeds(node, constants, [int(value) & 0x7FFFFFFF for value in values])


def one_by_one(graph: Any) -> None:
    """Let functions that draw at random be called one after the other, so that they draw the same.

    Parameters
    ----------
    graph : GraphDef
        Changed.
    """
    draw = {
        function.signature.name
        for function in graph.library.function
        if any(SEEDS[0] in node.attr for node in function.node_def)
    }
    for nodes in _scopes(graph):
        constants = {node.name: node for node in nodes if node.op == "Const"}
        for node in nodes:
            if node.op.startswith("ParallelMapDataset") and node.attr["f"].func.name in draw:
                calls = constants.get(node.input[-1].split(":")[0])
                if calls is not None:
                    kind = tf.as_dtype(calls.attr["dtype"].type).as_numpy_dtype
                    value = tf.make_tensor_proto(kind(1))
                    calls.attr["value"].tensor.CopyFrom(value)


def _seeds(node: Any, constants: Mapping[str, Any]) -> list[int] | None:
    """Return an operation's seeds; None if it takes none."""
    if all(name in node.attr for name in SEEDS):
        return [abs(node.attr[name].i) for name in SEEDS]
    found = [constants.get(name) for name in _seed_inputs(node)]
    if len(found) != len(SEEDS) or None in found:
        return None
    return [abs(int(tf.make_ndarray(one.attr["value"].tensor))) for one in found if one]


def _seed_inputs(node: Any) -> list[str]:
    known = op_def_registry.get(node.op)
    if known is None or len(known.input_arg) != len(node.input):
        return []
    pairs = zip(known.input_arg, node.input, strict=True)
    return [name.split(":")[0] for argument, name in pairs if argument.name in SEEDS]


def _set_seeds(node: Any, constants: Mapping[str, Any], values: Sequence[int]) -> None:
    if all(name in node.attr for name in SEEDS):
        for name, value in zip(SEEDS, values, strict=True):
            node.attr[name].i = value
        return
    for name, value in zip(_seed_inputs(node), values, strict=True):
        tensor = tf.make_tensor_proto(np.int64(value))
        constants[name].attr["value"].tensor.CopyFrom(tensor)


def shard(graph: Any, count: int, index: int, batched: bool) -> list[Any] | None:
    """Leave every row out that is another partition's, before what makes one element of each.

    Parameters
    ----------
    graph : GraphDef
        Of a dataset; changed.
    count, index : int
        Number of partitions, and this one's.
    batched : bool
        Whether its elements are batches.

    Returns
    -------
    list of NodeDef
        What follows; None if it could not be done here, since no batch is made of single rows.
    """
    nodes = {node.name: node for node in graph.node}
    after = next(node for node in graph.node if node.op == "_Retval")
    below = []
    while (first := nodes[after.input[0].split(":")[0]]).op in PASSED or (
        batched and _batches_all(first, nodes)
    ):
        batched = batched and first.op in PASSED
        after = first
        below.append(first)
    if batched:
        return None
    types = "output_types" if "output_types" in first.attr else "Toutput_types"
    elements = {"output_types": first.attr[types], "output_shapes": first.attr["output_shapes"]}
    made = node_def_pb2.NodeDef(name="tos/shard", op="ShardDataset", attr=elements)
    made.input.append(first.name)
    for name, value in (("tos/count", count), ("tos/index", index)):
        constant = graph.node.add(name=name, op="Const")
        constant.attr["dtype"].type = types_pb2.DT_INT64
        constant.attr["value"].CopyFrom(
            attr_value_pb2.AttrValue(tensor=tf.make_tensor_proto(np.int64(value)))
        )
        made.input.append(name)
    graph.node.append(made)
    after.input[0] = made.name
    return below


def _batches_all(node: Any, nodes: Mapping[str, Any]) -> bool:
    """Tell whether an operation makes batches, and leaves no rows out."""
    if node.op not in BATCHES:
        return False
    drops = nodes[node.input[-1].split(":")[0]]
    return drops.op == "Const" and not bool(tf.make_ndarray(drops.attr["value"].tensor))


def fitted(dataset: Any, batched: bool, feeds: Sequence[Field]) -> Any:
    """Return a dataset with single values as arrays of one, where feeds take these."""
    spec = row_spec(dataset, batched)
    columns, order = columns_in(spec, feeds)
    pairs = zip(order, columns, feeds, strict=False)
    ones = {at for at, c, f in pairs if c.shape == () and getattr(f, "shape", None) == (1,)}
    if not ones:
        return dataset

    def widened(*record: Any) -> Any:
        given = record if isinstance(spec, tuple) else record[0]
        values = enumerate(tf.nest.flatten(given))
        wide = [tf.expand_dims(value, -1) if at in ones else value for at, value in values]
        return tf.nest.pack_sequence_as(given, wide)

    with eagerly():
        return dataset.map(widened)


def row_spec(dataset: Any, batched: bool) -> Any:
    """Return the specification of a row."""
    with eagerly():
        return dataset.unbatch().element_spec if batched else dataset.element_spec


def is_batched(dataset: Any, feeds: Sequence[Field]) -> bool:
    """Return whether a dataset's elements are batches: by the feeds' shapes, if they say."""
    specs = tf.nest.flatten(dataset.element_spec)
    if not all(isinstance(spec, tf.TensorSpec) and spec.shape.rank for spec in specs):
        return False
    if all(spec.shape[0] is None for spec in specs):
        return True
    with eagerly():
        columns = columns_in(dataset.element_spec, feeds)[0]
    known = [
        (tuple(column.shape), shape)
        for column, feed in zip(columns, feeds, strict=False)
        if (shape := getattr(feed, "shape", None)) is not None
    ]
    if known:
        return all(len(found) == len(shape) + 1 for found, shape in known)
    while dataset is not None:
        name = type(dataset).__name__
        if "Batch" in name:
            return True
        dataset = None if "Unbatch" in name else getattr(dataset, "_input_dataset", None)
    return False


def batches_here(
    dataset: Any, order: Order, batched: bool, rows: int, each: Callable[[Columns], None]
) -> None:
    """Run a dataset in this process, and pass its rows on, some at a time.

    Parameters
    ----------
    dataset : tf.data.Dataset
    order : tuple of int
        See `tos_notebook.data.tf_data.columns_in`.
    batched : bool
        Whether its elements are batches.
    rows : int
        How many to pass on at a time, if they are not.
    each : callable
    """
    with eagerly():
        elements = iter((dataset if batched else dataset.batch(rows)).as_numpy_iterator())
    while True:
        with eagerly():
            element = next(elements, None)
        if element is None:
            return
        each(ordered(element, order))
