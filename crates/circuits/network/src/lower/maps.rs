//! Operations of an ONNX network as sparse matrices on flattened rows.

use unspoken_onnx::{Conv, Linear, Tensor, Window};

/// The entries of a matrix: for each row of the result its columns and factors.
pub(super) type Rows = Vec<Vec<(usize, f64)>>;

/// Row-major strides of a shape.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * shape[axis + 1];
    }
    strides
}

/// The number of elements of a shape.
pub(super) fn size(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// The coordinates of all elements of a shape, in row-major order.
fn coordinates(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let strides = strides(shape);
    (0..size(shape)).map(move |place| strides.iter().zip(shape).map(|(stride, size)| place / stride % size).collect())
}

/// The place of coordinates in a shape with these strides.
fn place(coordinates: &[usize], strides: &[usize]) -> usize {
    coordinates.iter().zip(strides).map(|(at, stride)| at * stride).sum()
}

/// The matrix that gives element `at(coordinates)` of the operand, if there is one, to each element of the result.
fn selection(shape: &[usize], at: impl Fn(&[usize]) -> Option<usize>) -> Rows {
    coordinates(shape).map(|here| at(&here).map(|column| (column, 1.0)).into_iter().collect()).collect()
}

/// The operand, broadcast to a shape of the same rank.
pub(super) fn broadcast(operand: &[usize], shape: &[usize]) -> Rows {
    let strides = strides(operand);
    let axes = strides.iter().zip(operand);
    let axes: Vec<usize> = axes.map(|(stride, size)| if *size == 1 { 0 } else { *stride }).collect();
    selection(shape, |here| Some(place(here, &axes)))
}

/// The numbers of a tensor, broadcast to a shape of the same rank.
pub(super) fn values(tensor: &Tensor, shape: &[usize]) -> Vec<f64> {
    let all: Vec<f64> = tensor.iter().map(|value| f64::from(*value)).collect();
    broadcast(tensor.shape(), shape)
        .into_iter()
        .map(|row| row.first().map_or(0.0, |(column, _)| all[*column]))
        .collect()
}

/// A matrix times the last axis.
pub(super) fn linear(linear: &Linear, operand: &[usize]) -> (Rows, Vec<f64>) {
    let &[outputs, inputs] = linear.weight.shape() else { return (Rows::new(), Vec::new()) };
    let leading = size(operand) / inputs.max(1);
    let weight = |row: usize, column: usize| f64::from(linear.weight[[row, column].as_slice()]);
    let row = |block: usize, row: usize| {
        let entries = (0..inputs).map(|column| (block * inputs + column, weight(row, column)));
        entries.filter(|(_, weight)| *weight != 0.0).collect()
    };
    let rows = (0..leading).flat_map(|block| (0..outputs).map(move |output| (block, output)));
    let rows: Rows = rows.map(|(block, output)| row(block, output)).collect();
    let bias = |output: usize| linear.bias.as_ref().map_or(0.0, |bias| f64::from(bias[[output].as_slice()]));
    let biases = (0..leading * outputs).map(|place| bias(place % outputs.max(1))).collect();
    (rows, biases)
}

/// For each element of the result of a window, which has the shape `[channels, spatial axes]`: its channel, and the
/// places in the kernel and in a channel of the operand that meet there.
fn windows(window: &Window, operand: &[usize], shape: &[usize]) -> impl Iterator<Item = (usize, Vec<(usize, usize)>)> {
    let kernel: Vec<Vec<usize>> = coordinates(&window.kernel).collect();
    let (window, sizes, strides) = (window.clone(), operand[1..].to_vec(), strides(&operand[1..]));
    let all: Vec<Vec<usize>> = coordinates(shape).collect();
    all.into_iter().map(move |here| {
        let meets = |(number, offset): (usize, &Vec<usize>)| {
            let axis = |axis: usize| {
                let at = here[axis + 1] * window.stride[axis] + offset[axis] * window.dilation[axis];
                at.checked_sub(window.padding[axis].0).filter(|at| *at < sizes[axis])
            };
            let at = (0..sizes.len()).map(axis).collect::<Option<Vec<usize>>>()?;
            Some((number, place(&at, &strides)))
        };
        (here[0], kernel.iter().enumerate().filter_map(meets).collect())
    })
}

/// A convolution.
pub(super) fn convolution(conv: &Conv, operand: &[usize], shape: &[usize]) -> (Rows, Vec<f64>) {
    let weights: Vec<f64> = conv.weight.iter().map(|weight| f64::from(*weight)).collect();
    let (channels, outputs) = (operand[0] / conv.groups.max(1), shape[0] / conv.groups.max(1));
    let (area, taps) = (size(&operand[1..]), size(&conv.window.kernel));
    let row = |(output, meets): (usize, Vec<(usize, usize)>)| {
        let first = output / outputs.max(1) * channels;
        let entries = (0..channels).flat_map(|channel| {
            meets
                .iter()
                .map(move |(tap, at)| ((first + channel) * area + at, (output * channels + channel) * taps + tap))
        });
        entries.map(|(column, weight)| (column, weights[weight])).filter(|(_, weight)| *weight != 0.0).collect()
    };
    let rows = windows(&conv.window, operand, shape).map(row).collect();
    let bias = |output: usize| conv.bias.as_ref().map_or(0.0, |bias| f64::from(bias[[output].as_slice()]));
    let biases = coordinates(shape).map(|here| bias(here[0])).collect();
    (rows, biases)
}

/// Averages over windows.
pub(super) fn average(window: &Window, count_include_pad: bool, operand: &[usize], shape: &[usize]) -> Rows {
    let (area, taps) = (size(&operand[1..]), size(&window.kernel));
    let row = |(channel, meets): (usize, Vec<(usize, usize)>)| {
        let count = if count_include_pad { taps } else { meets.len() };
        meets.into_iter().map(|(_, at)| (channel * area + at, 1.0 / count.max(1) as f64)).collect()
    };
    windows(window, operand, shape).map(row).collect()
}

/// Axes in another order: axis `i` of the result is axis `axes[i]` of the operand.
pub(super) fn transpose(axes: &[usize], operand: &[usize], shape: &[usize]) -> Rows {
    let strides = strides(operand);
    let moved: Vec<usize> = axes.iter().map(|axis| strides[*axis]).collect();
    selection(shape, |here| Some(place(here, &moved)))
}

/// The elements at some places of an axis.
pub(super) fn select(axis: usize, places: &[usize], operand: &[usize], shape: &[usize]) -> Rows {
    let strides = strides(operand);
    selection(shape, |here| {
        let mut there = here.to_vec();
        there[axis] = places[there[axis]];
        Some(place(&there, &strides))
    })
}

/// Zeros around a row.
pub(super) fn pad(amounts: &[(usize, usize)], operand: &[usize], shape: &[usize]) -> Rows {
    let strides = strides(operand);
    selection(shape, |here| {
        let axis = |axis: usize| here[axis].checked_sub(amounts[axis].0).filter(|at| *at < operand[axis]);
        let there = (0..operand.len()).map(axis).collect::<Option<Vec<usize>>>()?;
        Some(place(&there, &strides))
    })
}

/// One of several operands along an axis: where it begins in the result.
pub(super) fn part(axis: usize, first: usize, operand: &[usize], shape: &[usize]) -> Rows {
    let strides = strides(operand);
    selection(shape, |here| {
        let mut there = here.to_vec();
        there[axis] = there[axis].checked_sub(first).filter(|at| *at < operand[axis])?;
        Some(place(&there, &strides))
    })
}

/// Sums over axes of the operand, times a factor. A result has all axes of the operand, of which the summed ones have
/// one element, or not these.
pub(super) fn reduce(axes: &[usize], factor: f64, operand: &[usize]) -> Rows {
    let kept: Vec<usize> =
        operand.iter().enumerate().map(|(axis, size)| if axes.contains(&axis) { 1 } else { *size }).collect();
    let kept_strides = strides(&kept);
    let mut rows = vec![Vec::new(); size(&kept)];
    for (column, mut here) in coordinates(operand).enumerate() {
        axes.iter().for_each(|axis| here[*axis] = 0);
        rows[place(&here, &kept_strides)].push((column, factor));
    }
    rows
}
