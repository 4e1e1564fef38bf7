"""Expressions as trees of nodes, all of them matrices, and their conversion to the compiled module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Union

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._matrix_messages import MatrixInputs, MatrixSignature
from unspoken.errors import MatrixError

Values = npt.NDArray[np.float64]
# Payload of an operation besides its operands: weights or values, indices or a shape, a number or an axis.
Payload = Union[Values, Sequence[int], float, None]


class Encrypter(Protocol):
    """What a computation needs of the secret of its arrays."""

    def encrypt(self, signature: MatrixSignature, /, **arrays: npt.ArrayLike) -> MatrixInputs:
        """Encrypt inputs of the program with this signature, given by name."""


@dataclass(frozen=True, eq=False)
class Bound:
    """An array bound to an input, and the secret that will encrypt it."""

    values: Values
    secret: Encrypter


@dataclass(frozen=True, eq=False)
class Input:
    """An input: name ('' if it is numbered later), axes of the array, and the array, if there is one."""

    name: str
    axes: tuple[bool, bool, bool]
    bound: Bound | None


@dataclass(frozen=True, eq=False)
class Node:
    """An input, or an operation on other nodes; its shape is the shape of a matrix."""

    definition: Input | _unspoken.MatrixOperation
    operands: tuple[Node, ...]
    shape: tuple[int, int]

    @staticmethod
    def input(name: str, shape: tuple[int, int], axes: tuple[bool, bool], bound: Bound | None) -> Node:
        """Return an input; `axes` says whether the array has a batch and rows."""
        return Node(Input(name, (*axes, True), bound), (), shape)

    @staticmethod
    def constant(values: Values) -> Node:
        """Return a plaintext matrix."""
        return Node._of("constant", (), values)

    def apply(self, kind: str, *others: Node, payload: Payload = None) -> Node:
        """Return the operation of this kind on this node and others.

        The compiled module defines kinds, operands and payloads, and also computes the shapes.

        Examples
        --------
        >>> a = Node.input("a", (4, 3), (False, True), None)
        >>> a.apply("transpose").apply("matmul", a).apply("rows", payload=[0]).shape
        (1, 3)
        """
        return Node._of(kind, (self, *others), payload)

    def reshape(self, shape: tuple[int, int]) -> Node:
        """Return the entries in row-major order in another shape; of several reshapes, only the last is done."""
        definition = self.definition
        source = self
        if isinstance(definition, _unspoken.MatrixOperation) and definition.kind == "reshape":
            source = self.operands[0]
        return source if source.shape == shape else source.apply("reshape", payload=shape)

    def transpose(self) -> Node:
        """Return the transpose; for a row or a column this is a reshape, which is cheaper."""
        return self.reshape(self.shape[::-1]) if 1 in self.shape else self.apply("transpose")

    @staticmethod
    def _of(kind: str, operands: tuple[Node, ...], payload: Payload) -> Node:
        if isinstance(payload, np.ndarray):
            payload = np.ascontiguousarray(payload)
        operation = _unspoken.MatrixOperation(kind, payload)
        return Node(operation, operands, operation.shape([operand.shape for operand in operands]))

    def parts(self) -> list[Node]:
        """Return every node once, each after its operands."""
        parts: list[Node] = []
        seen: set[int] = set()
        stack: list[tuple[Node, bool]] = [(self, False)]
        while stack:  # without recursion: expressions may be long
            node, ready = stack.pop()
            if ready:
                parts.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((operand, False) for operand in reversed(node.operands))
        return parts

    def inputs(self) -> dict[str, Input]:
        """Return the inputs by name; those without a name are numbered."""
        inputs = [node.definition for node in self.parts() if isinstance(node.definition, Input)]
        given = [each.name for each in inputs if each.name]
        twice = sorted({name for name in given if given.count(name) > 1})
        if twice:
            raise MatrixError(f"two inputs are called {', '.join(twice)}; needed one matrix() for each name")
        named: dict[str, Input] = {}
        count = 0
        for each in inputs:
            name = each.name
            while not name or (not each.name and name in given):
                count += 1
                name = f"array{count}"
            named[name] = each
        return named

    def bound(self) -> dict[str, Bound]:
        """Return the arrays bound to inputs, by name."""
        return {name: each.bound for name, each in self.inputs().items() if each.bound is not None}

    def graph(self) -> _unspoken.MatrixGraph:
        """Return the expression as a graph of the compiled module."""
        graph = _unspoken.MatrixGraph()
        names = {id(each): name for name, each in self.inputs().items()}
        numbers: dict[int, int] = {}
        for node in self.parts():
            definition = node.definition
            if isinstance(definition, Input):
                number = graph.input(names[id(definition)], node.shape, definition.axes)
            else:
                number = graph.push(definition, [numbers[id(operand)] for operand in node.operands])
            numbers[id(node)] = number
        return graph
