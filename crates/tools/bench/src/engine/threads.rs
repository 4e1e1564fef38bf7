//! Ours against ours: several threads against one, a hoisted rotation against a whole one.

use unspoken_rlwe::Hoisted;

use super::fixture::{Fixture, Operands};
use super::operations::Operation;
use crate::clock::{Clock, Contender, alternate, scaled};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::{Session, pool};

const TIME: Metric = Metric::less("time", "ms");

/// At the highest level.
pub(super) fn run(session: &mut Session<'_>, fixture: &Fixture) -> Result<(), BenchError> {
    let operands = fixture.operands(fixture.parameters.max_level())?;
    let hoisted = operands.a.inner().hoist(fixture.parameters.ring())?;
    for &threads in &session.options.threads {
        for operation in [Operation::Rotate, Operation::MultiplyRelinearise] {
            session.note(format!("{}, {threads} threads against one", operation.name()));
            several_threads(session, fixture, &operands, &hoisted, operation, threads)?;
        }
    }
    session.note("hoisted rotation against a whole one");
    hoisted_against_whole(session, fixture, &operands, &hoisted)
}

fn several_threads(
    session: &mut Session<'_>,
    fixture: &Fixture,
    operands: &Operands,
    hoisted: &Hoisted<'_>,
    operation: Operation,
    threads: usize,
) -> Result<(), BenchError> {
    let several = pool(threads)?;
    let timed = |pool: &rayon::ThreadPool| {
        // One thread's CPU time says nothing of several threads.
        let (outcome, seconds) = Clock::Wall.time_in(pool, || operation.apply(fixture, operands, hoisted));
        outcome.map(|_| seconds)
    };
    let single = &session.single;
    let mut contenders: [Contender<'_>; 2] = [Box::new(|| timed(&several)), Box::new(|| timed(single))];
    let samples = alternate(session.effort(), &mut contenders)?;
    drop(contenders);
    let [ours, baseline] = [&samples[0], &samples[1]].map(|seconds| scaled(seconds, 1e3));
    let params = params! {
        "preset": fixture.parameters.name(), "backend": fixture.backend(), "level": operands.level,
        "threads": threads, "clock": Clock::Wall.name(), "repetitions": ours.len(),
    };
    let case = format!("{}, {threads} threads", operation.name());
    session.row(TIME, case, &ours, Some(("ours, 1 thread", &baseline)), params);
    Ok(())
}

fn hoisted_against_whole(
    session: &mut Session<'_>,
    fixture: &Fixture,
    operands: &Operands,
    hoisted: &Hoisted<'_>,
) -> Result<(), BenchError> {
    let (clock, single) = (session.clock(), &session.single);
    let timed = |operation: Operation| {
        let (outcome, seconds) = clock.time_in(single, || operation.apply(fixture, operands, hoisted));
        outcome.map(|_| seconds)
    };
    let mut contenders: [Contender<'_>; 2] =
        [Box::new(|| timed(Operation::HoistedRotation)), Box::new(|| timed(Operation::Rotate))];
    let samples = alternate(session.effort(), &mut contenders)?;
    drop(contenders);
    let [ours, baseline] = [&samples[0], &samples[1]].map(|seconds| scaled(seconds, 1e3));
    let params = params! {
        "preset": fixture.parameters.name(), "backend": fixture.backend(), "level": operands.level,
    };
    session.timing(TIME, "hoisted rotation against a whole one", &ours, Some(("ours, rotate", &baseline)), params);
    Ok(())
}
