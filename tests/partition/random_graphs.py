"""Random graphs for properties: chains, joins, several readers and outputs, any kinds of node."""

from hypothesis import strategies as st

from delegate.model.graph import DType, Graph, Node, Quantization, Tensor

QUANTIZATION = Quantization((0.5,), (0,))


def tensor(index: int, **changes: object) -> Tensor:
    fields: dict[str, object] = {
        "index": index,
        "name": f"t{index}",
        "shape": (1, 2, 3, 4),
        "dtype": DType.INT8,
        "quantization": QUANTIZATION,
    }
    return Tensor(**{**fields, **changes})  # type: ignore[arg-type]


@st.composite
def graphs(draw: st.DrawFn, most: int = 14) -> Graph:
    """A graph in execution order: nodes read one to three earlier tensors, write one or two."""
    count = draw(st.integers(1, most))
    ends = draw(st.integers(1, 3))
    available = list(range(ends))
    nodes = []
    for index in range(count):
        inputs = draw(st.lists(st.sampled_from(available), min_size=1, max_size=3))
        if draw(st.booleans()) and nodes:  # mostly chains, as in real models
            inputs[0] = nodes[-1].outputs[-1]
        written = draw(st.integers(1, 2))
        outputs = tuple(range(len(available), len(available) + written))
        available += outputs
        nodes.append(Node(index, "ADD", tuple(inputs), outputs))
    produced = [t for t in available if t >= ends]
    outputs = draw(st.lists(st.sampled_from(produced), min_size=1, max_size=3, unique=True))
    return Graph(
        tensors=tuple(tensor(i) for i in available),
        nodes=tuple(nodes),
        inputs=tuple(range(ends)),
        outputs=tuple(outputs),
    )


@st.composite
def graphs_and_nodes(draw: st.DrawFn) -> tuple[Graph, frozenset[int]]:
    """A graph and the nodes that are supported, from none to all."""
    graph = draw(graphs())
    chosen = draw(st.sets(st.sampled_from([n.index for n in graph.nodes])))
    return graph, frozenset(chosen)
