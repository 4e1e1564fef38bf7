//! Work that is done again and again on polynomials of the same shapes.

#![expect(unsafe_code, reason = "the memory of a device that work uses")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unspoken_device::{Buffer, DeviceError};

use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::memory::Pool;
use crate::poly::Poly;
use crate::ring::Ring;

/// Work for [`Ring::repeat`], with the keys and constants that it uses. A device records it.
#[derive(Debug, Default)]
pub struct Recording {
    device: unspoken_device::Recording,
    shapes: Mutex<Option<Shapes>>,
}

type Shape = (Basis, Domain);

/// The polynomials of a recording.
struct Shapes {
    /// Identifies the ring.
    owner: Arc<Pool>,
    inputs: Vec<Shape>,
    /// Known when the work was done once.
    outputs: Vec<Shape>,
}

impl std::fmt::Debug for Shapes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shapes").field("inputs", &self.inputs).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

impl Recording {
    fn shapes(&self) -> MutexGuard<'_, Option<Shapes>> {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the recording belongs to this ring and to inputs of these shapes. A new recording does from now on.
    fn is_of(&self, ring: &Ring, inputs: &[Shape]) -> bool {
        let new = || Shapes { owner: Arc::clone(ring.pool()), inputs: inputs.to_vec(), outputs: Vec::new() };
        let mut shapes = self.shapes();
        let shapes = shapes.get_or_insert_with(new);
        Arc::ptr_eq(&shapes.owner, ring.pool()) && shapes.inputs == inputs
    }
}

/// The error of work, or of the device that records it.
struct Failed<E>(E);

impl<E: From<RingError>> From<DeviceError> for Failed<E> {
    fn from(error: DeviceError) -> Self {
        Failed(RingError::from(error).into())
    }
}

fn shape_of(poly: &Poly) -> Shape {
    (poly.basis, poly.domain)
}

impl Ring {
    /// Does work that computes polynomials from polynomials. A ring on a device records the work the second time, and
    /// then launches the record as one graph, which takes less time than queuing each operation. The work must depend
    /// only on the shapes of its inputs, and on values that are the same at every repetition of this recording. Inputs
    /// of other shapes than the first ones are not recorded.
    ///
    /// # Errors
    /// The errors of the work, or if an input is of another ring or the device failed.
    pub fn repeat<E: From<RingError> + Send>(
        &self,
        recording: &Recording,
        inputs: &[&Poly],
        work: impl Fn(&[&Poly]) -> Result<Vec<Poly>, E> + Sync,
    ) -> Result<Vec<Poly>, E> {
        inputs.iter().try_for_each(|input| self.check_own("repeat", input))?;
        let shapes: Vec<Shape> = inputs.iter().copied().map(shape_of).collect();
        // Held until the end: copies of inputs are used.
        let on = self.on().filter(|_| recording.is_of(self, &shapes));
        let Some(device) = on.as_ref().map(|on| on.device()) else { return work(inputs) };
        let there = |polys: &[&Poly]| polys.iter().map(|poly| poly.words.on(device)).collect::<Result<Vec<_>, _>>();
        let on_there = |buffers: &[Arc<Buffer>], shapes: &[Shape]| -> Vec<Poly> {
            let buffers = buffers.iter().map(|buffer| self.pool().of_device(Arc::clone(buffer)));
            buffers.zip(shapes).map(|(words, &(basis, domain))| self.poly_of(words, basis, domain)).collect()
        };
        let repeated = |buffers: &[Arc<Buffer>]| {
            let inputs = on_there(buffers, &shapes);
            let outputs = work(&inputs.iter().collect::<Vec<_>>()).map_err(Failed)?;
            if let Some(shapes) = &mut *recording.shapes() {
                shapes.outputs = outputs.iter().map(shape_of).collect();
            }
            there(&outputs.iter().collect::<Vec<_>>()).map_err(|error| Failed(error.into()))
        };
        // SAFETY: operations of rings use buffers that they make, copies, words that they note, and tables of rings.
        // The tables of this ring live, because the recording is of this ring, and the work holds other rings.
        let done = unsafe { device.repeat(&recording.device, &there(inputs)?, repeated) };
        let done = done.map_err(|Failed(error)| error)?;
        let outputs = recording.shapes().as_ref().map_or(Vec::new(), |shapes| shapes.outputs.clone());
        Ok(on_there(&done, &outputs))
    }
}
