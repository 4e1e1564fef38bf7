//! Convolutions and pooling.

use super::{Call, Data};
use crate::error::Refusal;
use crate::graph::{Conv, Operation, Window};
use crate::limits::MAX_ROW;

/// `Conv` over one or two axes, with constant weights.
pub(super) fn conv(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 3)?;
    let data = call.number(0)?;
    let weight = call.constant(1)?.floats()?;
    let (channels, spatial) = channels_of(&data)?;
    let [outputs, of_group, kernel @ ..] = weight.shape() else {
        return Err(Refusal::broken(format!("weights of shape {:?}", weight.shape()), "three or four axes"));
    };
    let (outputs, of_group, kernel) = (*outputs, *of_group, kernel.to_vec());
    let groups = call.attributes.int("group")?.unwrap_or(1);
    let groups = usize::try_from(groups).ok().filter(|&groups| groups > 0 && outputs > 0);
    let groups = groups.filter(|&groups| outputs % groups == 0 && groups.checked_mul(of_group) == Some(channels));
    let groups = groups.ok_or_else(|| {
        let found = format!("weights of shape {:?} for {channels} channels", weight.shape());
        Refusal::broken(found, "channels and outputs that the groups divide")
    })?;
    if call.attributes.ints("kernel_shape")?.is_some_and(|shape| !same(shape, &kernel)) {
        return Err(Refusal::broken("`kernel_shape` unlike the weights", "the kernel of the weights"));
    }
    let (window, size) = window(call, spatial, kernel)?;
    let bias = if call.operand(2).is_some() { Some(call.weights(2, &[outputs])?) } else { None };
    let shape = [vec![outputs], size].concat();
    call.compute(Operation::Conv(Conv { weight, bias, groups, window }), &[&data], shape)
}

/// `AveragePool` or `MaxPool`.
pub(super) fn pool(call: &mut Call, average: bool) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    let (channels, spatial) = channels_of(&data)?;
    let missing = || Refusal::broken("no `kernel_shape`", "the size of the windows");
    let kernel = sizes("kernel_shape", call.attributes.ints("kernel_shape")?.ok_or_else(missing)?, 1)?;
    let (window, size) = window(call, spatial, kernel)?;
    check_pool(&window)?;
    if call.flag("ceil_mode", false)? && ceiling_adds(&window, spatial, &size) {
        let found = "`ceil_mode` with windows that end outside";
        return Err(Refusal::new(found, "windows inside the padded rows", "use `ceil_mode=False` and padding"));
    }
    let operation = if average {
        Operation::AveragePool { window, count_include_pad: call.flag("count_include_pad", false)? }
    } else {
        call.require("storage_order", 0)?;
        Operation::MaxPool(window)
    };
    call.compute(operation, &[&data], [vec![channels], size].concat())
}

/// `GlobalAveragePool`: the mean over all axes but the channels.
pub(super) fn global_average(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    if data.shape.len() < 2 {
        return Err(Refusal::broken(format!("rows of shape {:?}", data.shape), "rows of shape [channels, ..]"));
    }
    let mut shape = vec![1; data.shape.len()];
    shape[0] = data.shape[0];
    let axes = (1..data.shape.len()).collect();
    call.compute(Operation::Reduce { mean: true, axes, keep: true }, &[&data], shape)
}

/// Channels and spatial sizes of rows.
fn channels_of(data: &Data) -> Result<(usize, &[usize]), Refusal> {
    match data.shape.split_first() {
        Some((&channels, spatial)) if (1..=2).contains(&spatial.len()) => Ok((channels, spatial)),
        _ => {
            let found = format!("rows of shape {:?}", data.shape);
            let needed = "rows of shape [channels, length] or [channels, height, width]";
            Err(Refusal::new(found, needed, "use layers over one or two axes"))
        }
    }
}

/// The windows that the attributes describe, and how many there are along each axis.
fn window(call: &Call, spatial: &[usize], kernel: Vec<usize>) -> Result<(Window, Vec<usize>), Refusal> {
    let of_each = |name: &str| match call.attributes.ints(name)? {
        Some(values) => sizes(name, values, 1),
        None => Ok(vec![1; spatial.len()]),
    };
    let (stride, dilation) = (of_each("strides")?, of_each("dilations")?);
    if [&kernel, &stride, &dilation].iter().any(|list| list.len() != spatial.len()) || kernel.contains(&0) {
        let found = format!("kernel {kernel:?}, strides {stride:?}, dilations {dilation:?}");
        return Err(Refusal::broken(found, format!("{} positive numbers each", spatial.len())));
    }
    let pads = call.attributes.ints("pads")?.map(|values| sizes("pads", values, 0)).transpose()?;
    let mode = call.attributes.text("auto_pad")?.unwrap_or("NOTSET");
    let mut padding = explicit_padding(pads, spatial.len())?;
    for axis in 0..spatial.len() {
        // Sizes are at most MAX_ROW, so this does not overflow.
        let reach = (kernel[axis] - 1) * dilation[axis] + 1;
        match mode {
            "NOTSET" => {}
            "VALID" => padding[axis] = (0, 0),
            "SAME_UPPER" | "SAME_LOWER" => {
                let covered = (spatial[axis].div_ceil(stride[axis]) - 1) * stride[axis] + reach;
                let zeros = covered.saturating_sub(spatial[axis]);
                let (less, more) = (zeros / 2, zeros.div_ceil(2));
                padding[axis] = if mode == "SAME_UPPER" { (less, more) } else { (more, less) };
            }
            other => return Err(Refusal::broken(format!("`auto_pad` of {other:?}"), "a mode of the standard")),
        }
    }
    let window = Window { kernel, stride, dilation, padding };
    let size = window_counts(&window, spatial)?;
    Ok((window, size))
}

/// Numbers of windows along each axis.
fn window_counts(window: &Window, spatial: &[usize]) -> Result<Vec<usize>, Refusal> {
    let count = |(axis, &size): (usize, &usize)| {
        let reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1;
        let padded = size + window.padding[axis].0 + window.padding[axis].1;
        let count = padded.checked_sub(reach).map(|rest| rest / window.stride[axis] + 1);
        count.ok_or_else(|| {
            let found = format!("a window of {reach} over {padded} elements with padding");
            Refusal::broken(found, "windows that fit")
        })
    };
    spatial.iter().enumerate().map(count).collect()
}

fn explicit_padding(pads: Option<Vec<usize>>, axes: usize) -> Result<Vec<(usize, usize)>, Refusal> {
    let Some(pads) = pads else { return Ok(vec![(0, 0); axes]) };
    if pads.len() != 2 * axes {
        return Err(Refusal::broken(format!("{} `pads`", pads.len()), format!("{}", 2 * axes)));
    }
    Ok((0..axes).map(|axis| (pads[axis], pads[axes + axis])).collect())
}

/// Checks that each window of a pool has an element that is not padding.
fn check_pool(window: &Window) -> Result<(), Refusal> {
    let outside = |(&(before, after), &kernel): (&(usize, usize), &usize)| before >= kernel || after >= kernel;
    if window.dilation.iter().any(|&dilation| dilation != 1) {
        return Err(Refusal::new("pooling with dilation", "dilations of 1", "use a pool without dilation"));
    }
    if window.padding.iter().zip(&window.kernel).any(outside) {
        let found = format!("padding {:?} of windows of {:?}", window.padding, window.kernel);
        return Err(Refusal::new(found, "padding smaller than the windows", "use less padding"));
    }
    Ok(())
}

/// Whether rounding up would add windows.
fn ceiling_adds(window: &Window, spatial: &[usize], counts: &[usize]) -> bool {
    (0..spatial.len()).any(|axis| {
        let reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1;
        let padded = spatial[axis] + window.padding[axis].0 + window.padding[axis].1;
        (padded - reach).div_ceil(window.stride[axis]) + 1 > counts[axis]
    })
}

/// Sizes of a list, each at least `least` and at most that of a row.
fn sizes(name: &str, values: &[i64], least: usize) -> Result<Vec<usize>, Refusal> {
    let size = |&value: &i64| usize::try_from(value).ok().filter(|size| (least..=MAX_ROW).contains(size));
    let sizes: Option<Vec<usize>> = values.iter().map(size).collect();
    sizes.filter(|sizes| sizes.len() <= 4).ok_or_else(|| {
        let found = format!("`{name}` of {:?}", &values[..values.len().min(8)]);
        Refusal::new(found, format!("at most 4 numbers from {least} to {MAX_ROW}"), "use usual windows")
    })
}

fn same(values: &[i64], sizes: &[usize]) -> bool {
    values.len() == sizes.len() && values.iter().zip(sizes).all(|(&value, &size)| usize::try_from(value) == Ok(size))
}
