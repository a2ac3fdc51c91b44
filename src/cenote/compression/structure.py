"""Filters without weights, removed with the channels that read them.

    conv (F, C) - relu - pool - conv (G, F)    ->    conv (F - r, C) - relu - pool - conv (G, F - r)

A filter of zeros makes a channel that is its bias everywhere, and a constant still behind functions of one element,
pools and depthwise convolutions. The layer that adds channels takes that constant into its bias, where each of its sums
reads all of the window (no padding), or it is zero. Channels that meet in an Add (or Mul, or a group of a convolution)
go only together: such sets are found over the whole graph (`channel_rules`), and a set goes where each layer that adds
its channels sees constants, or has no weights for them. Nodes that are not understood keep what they read.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from cenote.compression.channel_rules import followed
from cenote.compression.channels import ChannelSets, Shuffle, WeightedSum
from cenote.compression.network import SharedNetwork
from cenote.core.types import Array
from cenote.quantization.network import attribute, read_inside


def pruned(network: SharedNetwork, threshold: float) -> SharedNetwork | None:
    """Return the network without filters whose norm is at most a part of the largest one's of their layer, and without
    channels that no result needs; None where there are none, or they cannot be removed."""
    sets = followed(network, threshold)
    gone = sets.removable()
    return _Removal(network, sets, gone).network() if gone.any() else None


class _Removal:
    """A network that loses the channels of a mask; `constants`: by the place of a node and the position of its input,
    what it reads instead; `groups`: the groups of convolutions; `named`: new constants, `stems`: their names by what
    they are made of."""

    def __init__(self, network: SharedNetwork, sets: ChannelSets, gone: Array) -> None:
        self.before, self.sets, self.gone = network, sets, gone
        self.constants: dict[tuple[int, int], Array] = {}
        self.groups: dict[int, int] = {}
        self.taken, self.named = network.names(), dict[str, Array]()
        self.stems: dict[str, list[str]] = {}

    def network(self) -> SharedNetwork:
        """Return what is left."""
        for cut in self.sets.cuts:
            if self.gone[cut.ids].any():
                read = self._read(cut.place, cut.position)
                self.constants[cut.place, cut.position] = np.compress(
                    ~self.gone[cut.ids], read, axis=cut.axis
                )
        for layer in self.sets.sums:
            self._add_constants(layer)
        for count in self.sets.counts:
            left = int(np.count_nonzero(~self.gone[count.ids])) // count.per
            if count.position < 0:
                self.groups[count.place] = left
            elif self.gone[count.ids].any():
                numbers = self._read(count.place, count.position).copy()
                numbers[count.entry] = left
                self.constants[count.place, count.position] = numbers
        return self._changed()

    def _read(self, place: int, position: int) -> Array:
        held = self.constants.get((place, position))
        return self.before.array(self.before.nodes[place].input[position]) if held is None else held

    def _add_constants(self, layer: WeightedSum) -> None:
        """Take constants that a layer reads no more into its bias."""
        lost = self.gone[layer.read] & ~np.isnan(layer.constants)
        sums = layer.sums[:, lost][~self.gone[layer.made]] @ layer.constants[lost]
        if sums.any():
            node = self.before.nodes[layer.place]
            has_bias = len(node.input) > 2 and node.input[2]
            total = self._read(layer.place, 2) + sums if has_bias else sums
            self.constants[layer.place, 2] = total.astype(np.float32)

    def _changed(self) -> SharedNetwork:
        """Return the network with these constants, numbers of groups, and shorter orders of shuffled channels."""
        nodes = dict(enumerate(self.before.nodes))
        for (place, position), array in self.constants.items():
            node = nodes[place] = _copy(nodes[place])
            old = node.input[position] if position < len(node.input) else ""
            node.input.extend([""] * (position + 1 - len(node.input)))
            node.input[position] = self._named(f"{old or node.input[1]}.{'kept' if old else 'bias'}", array)
        for place, groups in self.groups.items():
            if groups != attribute(nodes[place], "group", 1):
                nodes[place] = _copy(nodes[place])
                next(each for each in nodes[place].attribute if each.name == "group").i = groups
        for shuffle in self.sets.shuffles:
            self._reorder(nodes, shuffle)
        left = [nodes[place] for place in sorted(nodes)]
        still = {str(each.name) for each in self.before.shell.graph.output}
        still |= {name for each in left for name in (*each.input, *read_inside(each))}
        unread = [name for name in self.before.tensors if name not in still]
        made = {name: numpy_helper.from_array(array, name) for name, array in self.named.items()}
        return self.before.changed(left, unread, made)

    def _reorder(self, nodes: dict[int, NodeProto], shuffle: Shuffle) -> None:
        """Put a Gather of what is left in the place of three nodes that shuffle channels."""
        kept = ~self.gone[shuffle.ids]
        if kept.all():
            return
        first, *rest = shuffle.places
        order = (np.cumsum(kept) - 1)[shuffle.order[kept[shuffle.order]]]
        read = [nodes[first].input[0], self._named(f"{nodes[first].output[0]}.order", order)]
        made = list(nodes[rest[-1]].output)
        nodes[first] = helper.make_node("Gather", read, made, nodes[first].name, axis=1)
        for place in rest:
            del nodes[place]

    def _named(self, stem: str, array: Array) -> str:
        """Return the name of a new constant; nodes that read one together still do where it stays equal."""
        for name in self.stems.setdefault(stem, []):
            if np.array_equal(self.named[name], array):
                return name
        name = self.before.fresh(stem, self.taken)
        self.taken.add(name)
        self.stems[stem].append(name)
        self.named[name] = np.ascontiguousarray(array)
        return name


def _copy(node: NodeProto) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    return made
