//! Other forms of a preset's bootstrap, each in turn with the plain one: sparse slots, seeded keys, several vectors at
//! once.

use unspoken_ckks::{
    Bootstrap, Bootstrapper, Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, Preset, SlotValues,
};
use unspoken_ring::{Backend, SecretRng};
use unspoken_rlwe::{EvaluationKeys, KeyStorage, SecretKey};

use super::REPETITIONS;
use super::fixture::Precision;
use super::report::TIME;
use crate::clock::{Stopwatch, alternate, scaled};
use crate::error::wrong;
use crate::harness::{Harness, pool};
use crate::row::{Metric, params};

/// Vectors of a group.
const GROUP: usize = 4;

/// The error of a bootstrap that is measured is at most this.
const WORST_ERROR: f64 = 0.001;

/// A client and a bootstrap of its vectors.
struct Form<'a> {
    encoder: &'a Encoder,
    bootstrapper: Bootstrapper,
    keys: EvaluationKeys,
    inputs: Vec<Ciphertext>,
}

impl<'a> Form<'a> {
    fn new(
        encoder: &'a Encoder,
        secret: &SecretKey,
        (slots, values, storage): (usize, SlotValues, KeyStorage),
        rng: &mut SecretRng,
    ) -> anyhow::Result<Self> {
        let plan = Bootstrap::new(encoder.parameters(), slots, values)?;
        let real = values == SlotValues::Real;
        let value = |j: usize| {
            let angle = (j * j) as f64;
            Complex64::new(angle.sin(), if real { 0.0 } else { angle.cos() })
        };
        let values: Vec<Complex64> = (0..plan.slots()).map(value).collect();
        let plain = encoder.encode(&values, plan.input_level(), encoder.parameters().scale())?;
        let inputs = (0..GROUP).map(|_| Ok(encoder.encrypt(&plain, secret, rng)?.expand(encoder.parameters())));
        let inputs = inputs.collect::<anyhow::Result<Vec<_>>>()?;
        let keys = EvaluationKeys::with_storage(storage).filled(secret, &plan.key_plan(), rng)?;
        let form = Form { encoder, bootstrapper: Bootstrapper::new(encoder, plan)?, keys, inputs };
        let wanted = values.repeat(encoder.parameters().slots() / values.len());
        for output in form.group()? {
            let found = Precision::between(&encoder.decrypt(&output, secret)?, &wanted).worst;
            if found.is_nan() || found > WORST_ERROR {
                return Err(wrong("form of a bootstrap", found, WORST_ERROR));
            }
        }
        Ok(form)
    }

    fn alone(&self) -> anyhow::Result<Ciphertext> {
        Ok(self.bootstrapper.refresh(&Evaluator::new(self.encoder, &self.keys), &self.inputs[0])?)
    }

    fn group(&self) -> anyhow::Result<Vec<Ciphertext>> {
        let inputs: Vec<&Ciphertext> = self.inputs.iter().collect();
        Ok(self.bootstrapper.refresh_many(&Evaluator::new(self.encoder, &self.keys), &inputs)?)
    }
}

/// Measures the forms of `preset` on one backend.
pub(super) fn run(
    harness: &mut Harness<'_>,
    preset: &Preset,
    backend: Backend,
    sparse_slots: usize,
) -> anyhow::Result<()> {
    let parameters = CkksParameters::with_backend(preset.literal()?, backend)?;
    // These keys protect no data: a fixed seed gives every run the same numbers.
    let mut rng = SecretRng::insecure_from_seed(5);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let (encoder, all) = (Encoder::new(&parameters), parameters.slots());
    let mut make = |slots, values, storage| Form::new(&encoder, &secret, (slots, values, storage), &mut rng);
    harness.progress(format!("forms of the bootstrap: {}, {} backend", preset.name, backend.name()));
    let plain = make(all, SlotValues::Complex, KeyStorage::Expanded)?;
    let forms = [
        (format!("{sparse_slots} slots"), make(sparse_slots, SlotValues::Complex, KeyStorage::Expanded)?),
        ("seeded keys".into(), make(all, SlotValues::Complex, KeyStorage::Seeded)?),
    ];
    for (name, form) in &forms {
        let case = format!("bootstrap, {name}, {}, {}", preset.name, backend.name());
        beside_plain(harness, &case, form, &plain)?;
    }
    drop(forms);
    groups(harness, ("complex", preset.name, backend), &plain)?;
    drop(plain);
    groups(harness, ("real", preset.name, backend), &make(all, SlotValues::Real, KeyStorage::Expanded)?)
}

/// Seconds of a form and of the plain bootstrap, in turn, and the memory of its keys.
fn beside_plain(harness: &mut Harness<'_>, case: &str, form: &Form<'_>, plain: &Form<'_>) -> anyhow::Result<()> {
    const PLAIN: &str = "all slots, expanded keys";
    let stopwatch = harness.stopwatch();
    let [own, others] = [form, plain].map(|form| move || stopwatch.seconds(|| form.alone()));
    let mut samples = alternate(REPETITIONS, &mut [Box::new(own), Box::new(others)])?;
    let others = samples.pop().unwrap_or_default();
    let own = samples.pop().unwrap_or_default();
    harness.timing(TIME, case, &own, Some((PLAIN, &others)), params! {});
    let [own, others] = [form, plain].map(|form| form.keys.bytes() as f64);
    harness.value(Metric::less("key_memory", "bytes"), case, own, Some((PLAIN, others)), params! {});
    Ok(())
}

/// Seconds per vector of a group, and of a bootstrap alone, in turn, on one thread and on several.
fn groups(
    harness: &mut Harness<'_>,
    (values, preset, backend): (&str, &str, Backend),
    form: &Form<'_>,
) -> anyhow::Result<()> {
    let counts: Vec<usize> = std::iter::once(1).chain(harness.options.threads.iter().copied()).collect();
    for threads in counts {
        let several = pool(threads)?;
        let group = || Stopwatch::wall(&several).seconds(|| form.group());
        let alone = || Stopwatch::wall(&several).seconds(|| form.alone());
        let mut samples = alternate(REPETITIONS, &mut [Box::new(group), Box::new(alone)])?;
        let alone = samples.pop().unwrap_or_default();
        let group = scaled(&samples.pop().unwrap_or_default(), 1.0 / GROUP as f64);
        let case = format!(
            "bootstrap of {GROUP} {values} vectors, per vector, {preset}, {}, {threads} threads",
            backend.name()
        );
        let params = params! { "threads": threads, "clock": "wall", "repetitions": group.len() };
        harness.row(TIME, case, &group, Some(("alone, on as many threads", &alone)), params);
    }
    Ok(())
}
