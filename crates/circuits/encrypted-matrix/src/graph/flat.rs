//! Expressions on the entries of matrices in row-major order.

use std::rc::Rc;

use ndarray::Array2;

use super::operation::Operation;
use super::{Graph, Node};
use crate::reduce::Axis;

/// Maximum number of entries of all selections of a flattened graph, before and after each: selections are lists of
/// numbers in memory, and the time of their plans grows with the vectors.
const MAX_SELECTED: usize = 1 << 22;

/// What an operation does to the entries of its operands in row-major order.
pub(super) enum Flat {
    /// Nothing.
    Same,
    /// The entries of the operand with these indices.
    Selection(Vec<usize>),
    /// This operation on row vectors.
    Operation(Operation),
}

/// A value of the flattened graph: some entries of a node, or all.
#[derive(Clone)]
struct Value {
    node: usize,
    entries: Option<Rc<[usize]>>,
}

impl Graph {
    /// The same expression with every matrix replaced by the row vector of its entries in row-major order. Transposes,
    /// reshapes, and selections of rows and columns become selections of entries. Consecutive ones become a single
    /// one, or none if all entries stay. In tiles of one row, a selection of different entries is a permutation with a
    /// planned network. Inputs keep their order.
    ///
    /// `None` if an operation needs rows and columns (a product, or a sum along one of two axes), or if the selections
    /// have more than 2^22 entries, before or after.
    pub fn flattened(&self) -> Option<Graph> {
        let mut flat = Flattening { graph: Graph::new(), values: vec![None; self.nodes.len()], selected: 0 };
        for (number, node) in self.nodes.iter().enumerate() {
            if let Operation::Input { .. } = node.operation {
                flat.add(self, number, &[], 1)?;
            }
        }
        let order = self.evaluation_order();
        let mut uses = vec![0; self.nodes.len()];
        order.iter().flat_map(|(_, operands)| operands).for_each(|&operand| uses[operand] += 1);
        for (number, operands) in &order {
            if flat.values[*number].is_none() {
                flat.add(self, *number, operands, uses[*number])?;
            }
        }
        let (last, _) = order.last()?;
        let value = flat.values.get(*last)?.clone()?;
        let result = flat.node_of(value)?;
        if result + 1 < flat.graph.nodes.len() {
            // The result is the last node: this one has the same value.
            let shape = flat.graph.nodes.get(result)?.shape;
            flat.graph.push(Operation::Reshape(shape), &[result]).ok()?;
        }
        Some(flat.graph)
    }
}

struct Flattening {
    graph: Graph,
    /// The value of each node of the original graph that is already flattened.
    values: Vec<Option<Value>>,
    /// Number of entries of all selections.
    selected: usize,
}

impl Flattening {
    /// Adds the value of a node of the original graph, which is used `uses` times.
    fn add(&mut self, original: &Graph, number: usize, operands: &[usize], uses: usize) -> Option<()> {
        let node: &Node = original.nodes.get(number)?;
        let shape = operands.first().and_then(|&operand| original.nodes.get(operand)).map(Node::shape);
        if node.operation.selects() {
            // Before lists of that length are made.
            let from = shape.map_or(0, |(rows, columns)| rows.saturating_mul(columns));
            self.selected = self.selected.saturating_add(from.max(node.shape.0.checked_mul(node.shape.1)?));
            if self.selected > MAX_SELECTED {
                return None;
            }
        }
        let values = operands.iter().map(|&operand| self.values.get(operand)?.clone()).collect::<Option<Vec<_>>>()?;
        let mut value = match (node.operation.flattened(shape)?, values) {
            (Flat::Same, values) => values.into_iter().next()?,
            (Flat::Selection(entries), values) => selection(values.into_iter().next()?, entries, shape)?,
            (Flat::Operation(operation), values) => {
                let nodes = values.into_iter().map(|value| self.node_of(value)).collect::<Option<Vec<_>>>()?;
                Value { node: self.graph.push(operation, &nodes).ok()?, entries: None }
            }
        };
        // A selection that is used several times is computed once.
        if uses > 1 {
            value = Value { node: self.node_of(value)?, entries: None };
        }
        self.values[number] = Some(value);
        Some(())
    }

    /// The node of a value, after a selection if it needs one.
    fn node_of(&mut self, value: Value) -> Option<usize> {
        let Some(entries) = value.entries else { return Some(value.node) };
        let length = self.graph.nodes.get(value.node)?.shape.1;
        if entries.len() == length && entries.iter().enumerate().all(|(to, &from)| to == from) {
            return Some(value.node);
        }
        self.graph.push(Operation::Columns(entries.to_vec()), &[value.node]).ok()
    }
}

/// Some entries of a value of this shape.
fn selection(of: Value, entries: Vec<usize>, shape: Option<(usize, usize)>) -> Option<Value> {
    let count = shape.map(|(rows, columns)| rows * columns)?;
    if entries.len() == count && entries.iter().enumerate().all(|(to, &from)| to == from) {
        return Some(of);
    }
    let entries = match of.entries {
        Some(inner) => entries.iter().map(|&entry| inner.get(entry).copied()).collect::<Option<Rc<[usize]>>>()?,
        None => entries.into(),
    };
    Some(Value { node: of.node, entries: Some(entries) })
}

impl Operation {
    /// What the operation does to the entries of its operands in row-major order, for a first operand of this shape.
    /// `None` if that needs rows and columns.
    pub(super) fn flattened(&self, operand: Option<(usize, usize)>) -> Option<Flat> {
        let row = |values: &Array2<f64>| {
            Array2::from_shape_vec((1, values.len()), values.iter().copied().collect()).ok().map(Operation::Constant)
        };
        let (rows, columns) = operand.unwrap_or((1, 1));
        Some(match self {
            Operation::Input { name, shape } => {
                Flat::Operation(Operation::Input { name: name.clone(), shape: (1, shape.0 * shape.1) })
            }
            Operation::Constant(values) => Flat::Operation(row(values)?),
            Operation::Add | Operation::Subtract | Operation::Multiply | Operation::Scale(_) => {
                Flat::Operation(self.clone())
            }
            Operation::Reshape(_) => Flat::Same,
            Operation::Transpose if rows == 1 || columns == 1 => Flat::Same,
            Operation::Transpose => {
                let entries = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
                Flat::Selection(entries.collect())
            }
            Operation::Rows(picked) => {
                let entries = picked.iter().flat_map(|row| (0..columns).map(move |column| row * columns + column));
                Flat::Selection(entries.collect())
            }
            Operation::Columns(picked) => {
                let entries = (0..rows).flat_map(|row| picked.iter().map(move |column| row * columns + column));
                Flat::Selection(entries.collect())
            }
            Operation::Sum(axis) => match axis.output_shape((rows, columns)) {
                (1, 1) => Flat::Operation(Operation::Sum(Axis::Both)),
                shape if shape == (rows, columns) => Flat::Same,
                _ => return None,
            },
            Operation::MatMul | Operation::MatrixVector | Operation::TimesLeft(_) | Operation::TimesRight(_) => {
                return None;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::Axis;

    /// Rows, columns and operation of each node.
    fn listed(graph: &Graph) -> Vec<((usize, usize), Operation)> {
        graph.nodes().iter().map(|node| (node.shape(), node.operation().clone())).collect()
    }

    fn input(name: &str, shape: (usize, usize)) -> Operation {
        Operation::Input { name: name.into(), shape }
    }

    #[test]
    fn consecutive_selections_are_one() {
        let mut graph = Graph::new();
        let a = graph.input("a", (2, 3)).unwrap();
        let transposed = graph.push(Operation::Transpose, &[a]).unwrap();
        let rows = graph.push(Operation::Rows(vec![2, 0]), &[transposed]).unwrap();
        let columns = graph.push(Operation::Columns(vec![1]), &[rows]).unwrap();
        graph.push(Operation::Reshape((1, 2)), &[columns]).unwrap();
        let flat = graph.flattened().unwrap();
        // Rows 2 and 0 of the transpose are columns 2 and 0 of the matrix; column 1 of them is its row 1.
        assert_eq!(listed(&flat), [((1, 6), input("a", (1, 6))), ((1, 2), Operation::Columns(vec![5, 3]))]);
    }

    #[test]
    fn a_selection_that_is_used_twice_is_computed_once() {
        let mut graph = Graph::new();
        let a = graph.input("a", (1, 4)).unwrap();
        let picked = graph.push(Operation::Columns(vec![3, 1, 0, 2]), &[a]).unwrap();
        let rolled = graph.push(Operation::Columns(vec![1, 2, 3, 0]), &[picked]).unwrap();
        graph.push(Operation::Add, &[picked, rolled]).unwrap();
        let flat = graph.flattened().unwrap();
        assert_eq!(flat, graph);
    }

    #[test]
    fn what_changes_nothing_has_no_node() {
        let mut graph = Graph::new();
        let a = graph.input("a", (2, 2)).unwrap();
        let b = graph.input("b", (4, 1)).unwrap();
        let row = graph.push(Operation::Reshape((1, 4)), &[a]).unwrap();
        let other = graph.push(Operation::Transpose, &[b]).unwrap();
        graph.push(Operation::Multiply, &[row, other]).unwrap();
        let flat = graph.flattened().unwrap();
        let wanted = [((1, 4), input("a", (1, 4))), ((1, 4), input("b", (1, 4))), ((1, 4), Operation::Multiply)];
        assert_eq!(listed(&flat), wanted);
    }

    #[test]
    fn a_result_that_is_an_input_is_the_last_node() {
        let mut graph = Graph::new();
        let a = graph.input("a", (2, 2)).unwrap();
        graph.input("b", (2, 2)).unwrap();
        graph.push(Operation::Reshape((4, 1)), &[a]).unwrap();
        let flat = graph.flattened().unwrap();
        assert_eq!(flat.evaluation_order(), [(0, vec![])]);
        assert_eq!(flat.inputs().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn sums_of_all_entries_are_possible_and_sums_of_rows_are_not() {
        let sum = |shape, axis| {
            let mut graph = Graph::new();
            let a = graph.input("a", shape).unwrap();
            graph.push(Operation::Sum(axis), &[a]).unwrap();
            graph.flattened()
        };
        assert_eq!(sum((2, 3), Axis::Both).unwrap().nodes()[1].operation(), &Operation::Sum(Axis::Both));
        assert_eq!(sum((3, 1), Axis::Rows).unwrap().nodes()[1].shape(), (1, 1));
        assert_eq!(sum((3, 1), Axis::Columns).unwrap().nodes().len(), 1);
        assert_eq!(sum((2, 3), Axis::Rows), None);
    }

    #[test]
    fn products_and_too_long_selections_stay_matrices() {
        let mut graph = Graph::new();
        let a = graph.input("a", (2, 2)).unwrap();
        graph.push(Operation::TimesLeft(Array2::eye(2)), &[a]).unwrap();
        assert_eq!(graph.flattened(), None);
        let mut graph = Graph::new();
        let a = graph.input("a", (1 << 11, 1 << 11)).unwrap();
        let b = graph.push(Operation::Transpose, &[a]).unwrap();
        assert!(graph.flattened().is_some());
        let b = graph.push(Operation::Rows((0..1 << 11).rev().collect()), &[b]).unwrap();
        graph.push(Operation::Scale(2.0), &[b]).unwrap();
        assert_eq!(graph.flattened(), None);
    }
}
