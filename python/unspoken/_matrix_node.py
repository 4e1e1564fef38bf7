"""Expressions as trees of nodes, all of them matrices, and their way into the compiled half."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken.errors import MatrixError

if TYPE_CHECKING:
    from unspoken._matrix_secret import MatrixSecret

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bound:
    """An array behind an input, and the secret that will encrypt it."""

    values: Values
    secret: MatrixSecret


@dataclass(frozen=True, eq=False)
class Node:
    """One operation: how the compiled half is told of it, what it is made of, and its shape."""

    build: Callable[[_unspoken.MatrixGraph, list[int], str], int]
    operands: tuple[Node, ...]
    shape: tuple[int, int]
    name: str | None = None
    bound_to: Bound | None = None

    @staticmethod
    def input(name: str, shape: tuple[int, int], axes: tuple[bool, bool], bound: Bound | None) -> Node:
        """Return an input; `axes` says whether the array has a batch and rows."""
        form = (shape, (*axes, True))
        return Node(lambda graph, _, name: graph.input(name, form), (), shape, name, bound)

    @staticmethod
    def constant(values: Values) -> Node:
        """Return a matrix in the clear."""
        values = np.ascontiguousarray(values)
        return Node(lambda graph, _, __: graph.constant(values), (), _shape(values))

    def matmul(self, other: Node) -> Node:
        """Return ``self @ other``."""
        return _binary(lambda graph, a, b: graph.matmul(a, b), self, other, (self.shape[0], other.shape[1]))

    def times_vector(self, row: Node) -> Node:
        """Return ``self @ row.T``, a column."""
        return _binary(lambda graph, a, x: graph.times_vector(a, x), self, row, (self.shape[0], 1))

    def times_left(self, weights: Values) -> Node:
        """Return ``weights @ self``."""
        weights = np.ascontiguousarray(weights)
        return self._unary(lambda graph, a: graph.times_left(weights, a), (weights.shape[0], self.shape[1]))

    def times_right(self, weights: Values) -> Node:
        """Return ``self @ weights``."""
        weights = np.ascontiguousarray(weights)
        return self._unary(lambda graph, a: graph.times_right(a, weights), (self.shape[0], weights.shape[1]))

    def transpose(self) -> Node:
        """Return the transpose."""
        return self._unary(lambda graph, a: graph.transpose(a), self.shape[::-1])

    def pick(self, axis: int, indices: list[int]) -> Node:
        """Return rows or columns in this order."""
        if axis == 0:
            return self._unary(lambda graph, a: graph.rows(a, indices), (len(indices), self.shape[1]))
        return self._unary(lambda graph, a: graph.columns(a, indices), (self.shape[0], len(indices)))

    def add(self, other: Node) -> Node:
        """Return the sum."""
        return _binary(lambda graph, a, b: graph.add(a, b), self, other, self.shape)

    def subtract(self, other: Node) -> Node:
        """Return the difference."""
        return _binary(lambda graph, a, b: graph.subtract(a, b), self, other, self.shape)

    def multiply(self, other: Node) -> Node:
        """Return the product entry by entry."""
        return _binary(lambda graph, a, b: graph.multiply(a, b), self, other, self.shape)

    def scale(self, factor: float) -> Node:
        """Return a multiple."""
        return self._unary(lambda graph, a: graph.scale(a, factor), self.shape)

    def sum(self, axis: int | None) -> Node:
        """Return sums, with extents of 1 left."""
        shape = (1 if axis in (0, None) else self.shape[0], 1 if axis in (1, None) else self.shape[1])
        return self._unary(lambda graph, a: graph.sum(a, axis), shape)

    def _unary(self, build: Callable[[_unspoken.MatrixGraph, int], int], shape: tuple[int, int]) -> Node:
        return Node(lambda graph, operands, _: build(graph, operands[0]), (self,), shape)

    def parts(self) -> list[Node]:
        """Return every node once, each after what it is made of."""
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

    def names(self) -> dict[int, str]:
        """Return the name of each input, by the id of its node; those without one are numbered."""
        inputs = [node for node in self.parts() if node.name is not None]
        given = [node.name for node in inputs if node.name]
        twice = sorted({name for name in given if given.count(name) > 1})
        if twice:
            raise MatrixError(f"two inputs are called {', '.join(twice)}; needed one matrix() for each name")
        names, count = {}, 0
        for node in inputs:
            name = node.name
            while not name or (not node.name and name in given):
                count += 1
                name = f"array{count}"
            names[id(node)] = name
        return names

    def bound(self) -> dict[str, Bound]:
        """Return the arrays behind inputs, by name."""
        names = self.names()
        return {names[id(node)]: node.bound_to for node in self.parts() if node.bound_to is not None}

    def graph(self) -> _unspoken.MatrixGraph:
        """Return the expression as the compiled half has it."""
        graph, names = _unspoken.MatrixGraph(), self.names()
        numbers: dict[int, int] = {}
        for node in self.parts():
            operands = [numbers[id(operand)] for operand in node.operands]
            numbers[id(node)] = node.build(graph, operands, names.get(id(node), ""))
        return graph


def _binary(
    build: Callable[[_unspoken.MatrixGraph, int, int], int], first: Node, second: Node, shape: tuple[int, int]
) -> Node:
    return Node(lambda graph, operands, _: build(graph, operands[0], operands[1]), (first, second), shape)


def _shape(values: npt.NDArray[Any]) -> tuple[int, int]:
    return values.shape[0], values.shape[1]
