//! Comparisons among our own operations: several threads against one, a hoisted rotation against a whole one, a product
//! with a plaintext against a copy of the same number of bytes.

use unspoken_rlwe::Hoisted;

use super::fixture::{Fixture, Operands};
use super::operations::Operation;
use crate::clock::{Clock, Stopwatch, alternate, scaled};
use crate::harness::{Harness, pool};
use crate::row::{Metric, params};

const TIME: Metric = Metric::less("time", "ms");

/// Measures at the highest level.
pub(super) fn run(harness: &mut Harness<'_>, fixture: &Fixture) -> anyhow::Result<()> {
    let operands = fixture.operands(fixture.parameters.max_level())?;
    let hoisted = operands.a.inner().hoist(fixture.parameters.ring())?;
    for &threads in &harness.options.threads {
        for operation in [Operation::Rotate, Operation::MultiplyRelinearise] {
            harness.progress(format!("{}, {threads} threads against one", operation.name()));
            several_threads(harness, fixture, &operands, &hoisted, operation, threads)?;
        }
    }
    harness.progress("hoisted rotation against a whole one");
    hoisted_against_whole(harness, fixture, &operands, &hoisted)?;
    harness.progress("product with a plaintext against a copy");
    product_against_copy(harness, fixture, &operands, &hoisted)
}

fn several_threads(
    harness: &mut Harness<'_>,
    fixture: &Fixture,
    operands: &Operands,
    hoisted: &Hoisted<'_>,
    operation: Operation,
    threads: usize,
) -> anyhow::Result<()> {
    let several = pool(threads)?;
    let [on_several, on_one] = [&several, &harness.single_thread]
        .map(|threads| move || Stopwatch::wall(threads).seconds(|| operation.apply(fixture, operands, hoisted)));
    let samples = alternate(harness.repetitions(), &mut [Box::new(on_several), Box::new(on_one)])?;
    let [ours, baseline] = [&samples[0], &samples[1]].map(|seconds| scaled(seconds, 1e3));
    let params = params! {
        "preset": fixture.parameters.name(), "backend": fixture.backend(), "level": operands.level,
        "threads": threads, "clock": Clock::Wall.name(), "repetitions": ours.len(),
    };
    let case = format!("{}, {threads} threads", operation.name());
    harness.row(TIME, case, &ours, Some(("ours, 1 thread", &baseline)), params);
    Ok(())
}

fn hoisted_against_whole(
    harness: &mut Harness<'_>,
    fixture: &Fixture,
    operands: &Operands,
    hoisted: &Hoisted<'_>,
) -> anyhow::Result<()> {
    let stopwatch = harness.stopwatch();
    let [one, whole] = [Operation::HoistedRotation, Operation::Rotate]
        .map(|operation| move || stopwatch.seconds(|| operation.apply(fixture, operands, hoisted)));
    let samples = alternate(harness.repetitions(), &mut [Box::new(one), Box::new(whole)])?;
    let [ours, baseline] = [&samples[0], &samples[1]].map(|seconds| scaled(seconds, 1e3));
    let params = params! {
        "preset": fixture.parameters.name(), "backend": fixture.backend(), "level": operands.level,
    };
    harness.timing(TIME, "hoisted rotation against a whole one", &ours, Some(("ours, rotate", &baseline)), params);
    Ok(())
}

/// A product reads three polynomials and writes two: the bytes of a copy of two and a half.
fn product_against_copy(
    harness: &mut Harness<'_>,
    fixture: &Fixture,
    operands: &Operands,
    hoisted: &Hoisted<'_>,
) -> anyhow::Result<()> {
    let stopwatch = harness.stopwatch();
    let words = 5 * operands.a.inner().components()[0].bytes() / size_of::<u32>() / 2;
    let (source, mut target) = (vec![1u32; words], vec![0u32; words]);
    let product = || stopwatch.seconds(|| Operation::MultiplyPlain.apply(fixture, operands, hoisted));
    let copy = || {
        stopwatch.seconds(|| {
            target.copy_from_slice(&source);
            std::hint::black_box(&mut target);
            anyhow::Ok(())
        })
    };
    let samples = alternate(harness.repetitions(), &mut [Box::new(product), Box::new(copy)])?;
    let [ours, baseline] = [&samples[0], &samples[1]].map(|seconds| scaled(seconds, 1e3));
    let params = params! {
        "preset": fixture.parameters.name(), "backend": fixture.backend(), "level": operands.level,
        "bytes": 2 * words * size_of::<u32>(),
    };
    let case = "product with a plaintext against a copy";
    harness.timing(TIME, case, &ours, Some(("copy of as many bytes", &baseline)), params);
    Ok(())
}
