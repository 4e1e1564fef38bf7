//! Work that is queued as one when it is repeated.
//!
//! The first time, work is done as it is, which fills all caches. The second time it is recorded: kernels and copies
//! are noted, not queued, and use memory that all recordings of a device share, because only one is repeated at a time.
//! From then on a repetition copies the inputs to their places there, launches the graph, and copies the results.

#![expect(unsafe_code, reason = "addresses of a device's memory")]

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::device::{Buffer, Device};
use crate::driver::Step;
use crate::error::DeviceError;
use crate::operation::Operation;
use crate::recorded::{Place, Recorded, State};
use crate::recorder::{self, Recorder};

/// Work that a device does again and again, on other inputs of the same lengths: see [`Device::repeat`].
#[derive(Default)]
pub struct Recording(Arc<Mutex<State>>);

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

/// Times that there may be too little memory for a recording until it is not tried again.
const MAX_SHORTAGES: u32 = 2;

impl Device {
    /// Does work, which computes buffers from buffers. The second time, the work is recorded. The work must depend on
    /// the lengths of its inputs alone, and must compute only on threads of the rayon pool in which it runs.
    ///
    /// # Errors
    /// The errors of the work, or if the device failed.
    ///
    /// # Safety
    /// The work uses only this memory of the device: its inputs, buffers that it makes, copies or buffers that are
    /// noted ([`Device::note_use`]), and memory that lives as long as the recording is repeated.
    pub unsafe fn repeat<E: From<DeviceError> + Send>(
        &self,
        recording: &Recording,
        inputs: &[Arc<Buffer>],
        work: impl Fn(&[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>, E> + Sync,
    ) -> Result<Vec<Arc<Buffer>>, E> {
        let Recording(shared) = recording;
        // Work within work is a part of it, and so is work that another thread records now.
        let Some(mut state) = shared.try_lock().ok().filter(|_| !recorder::is_on(self.number())) else {
            return work(inputs);
        };
        if matches!(*state, State::New) {
            drop(state);
            let outputs = work(inputs)?;
            if let Ok(mut state) = shared.try_lock()
                && matches!(*state, State::New)
            {
                *state = State::DONE;
            }
            return Ok(outputs);
        }
        if let State::Done { shortages } = *state {
            self.try_to_record(shared, (&mut state, shortages), inputs, &work);
        }
        match &*state {
            State::Recorded(recorded) if recorded.fits(self, inputs) => Ok(recorded.repeated(self, inputs)?),
            _ => {
                drop(state);
                work(inputs)
            }
        }
    }

    /// Records work, unless another recording is being made.
    fn try_to_record<E: From<DeviceError> + Send>(
        &self,
        shared: &Arc<Mutex<State>>,
        (state, shortages): (&mut State, u32),
        inputs: &[Arc<Buffer>],
        work: &(impl Fn(&[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>, E> + Sync),
    ) {
        let Some(alone) = self.recordings().try_alone() else { return };
        // A thread that waits for another pool does other work of its own pool meanwhile, and that work may need these
        // locks.
        let recorded = thread::scope(|scope| {
            let record = || self.recordings().thread().map(|pool| pool.install(|| self.record(inputs, work)));
            thread::Builder::new().spawn_scoped(scope, record).ok()?.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        let (recorded, short) = recorded.unwrap_or((Ok(None), false));
        match recorded {
            Ok(Some(recorded)) => {
                *state = State::Recorded(recorded);
                self.recordings().add(shared);
            }
            Err(_) if short && shortages + 1 < MAX_SHORTAGES => *state = State::Done { shortages: shortages + 1 },
            Err(_) if !short => {}
            Ok(None) | Err(_) => *state = State::Unfit,
        }
        drop(alone);
        if short {
            // Without its scratch there may be memory enough for the work.
            self.release_recordings();
        }
    }

    /// Records work: nothing if it cannot be recorded. Also returns whether there was too little memory.
    fn record<E: From<DeviceError>>(
        &self,
        inputs: &[Arc<Buffer>],
        work: impl Fn(&[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>, E>,
    ) -> (Result<Option<Recorded>, E>, bool) {
        let ends = recorder::begin(self.number());
        let operation = Operation::begin();
        let places = inputs.iter().map(|input| Ok(Arc::new(self.buffer(input.len())?)));
        let result = places.collect::<Result<Vec<_>, E>>().and_then(|places| Ok((work(&places)?, places)));
        drop(operation);
        match ends.end().filter(|recorder| !recorder.refused) {
            Some(recorder) => {
                let short = recorder.short;
                (result.and_then(|(outputs, inputs)| Ok(self.recorded_of(recorder, inputs, outputs)?)), short)
            }
            None => (Ok(None), false),
        }
    }

    /// What a recorder has noted, as a recording; nothing if the driver makes no graph of it.
    fn recorded_of(
        &self,
        recorder: Recorder,
        inputs: Vec<Arc<Buffer>>,
        outputs: Vec<Arc<Buffer>>,
    ) -> Result<Option<Recorded>, DeviceError> {
        let Recorder { steps, launches, mut kept, .. } = recorder;
        let [inputs, outputs] = [inputs, outputs].map(|buffers| {
            let places = buffers.iter().map(|buffer| place(buffer)).collect();
            buffers.into_iter().filter(|buffer| !buffer.is_scratch()).for_each(|buffer| kept.push(buffer));
            places
        });
        if self.scratch_in_use() > 0 {
            return self.fail("record", "results of a recording are in use");
        }
        // SAFETY: the steps were safe one by one. Of the memory that they use, buffers are kept, scratch is given back
        // only when there are no recordings, and for all else the caller of `repeat` answers.
        let graph = match unsafe { self.graph(steps) } {
            Ok(graph) => graph,
            Err(error @ DeviceError::Memory { .. }) => return Err(error),
            Err(_) => return Ok(None),
        };
        let launches = launches.into_iter().collect();
        kept.push(Arc::new(self.clone()));
        Ok(Some(Recorded { device: self.number(), graph, launches, inputs, outputs, _kept: kept }))
    }
}

/// Where a buffer of a recording is.
fn place(buffer: &Buffer) -> Place {
    Place { address: buffer.address(), words: buffer.len(), bytes: buffer.word_bytes() }
}

impl Recorded {
    fn fits(&self, device: &Device, inputs: &[Arc<Buffer>]) -> bool {
        let words = inputs.iter().map(|input| input.len());
        self.device == device.number() && words.eq(self.inputs.iter().map(|place| place.words))
    }

    fn repeated(&self, device: &Device, inputs: &[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>, DeviceError> {
        let outputs = self.outputs.iter().map(|place| device.buffer(place.words).map(Arc::new));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let _alone = device.recordings().alone();
        for (input, place) in inputs.iter().zip(&self.inputs) {
            // SAFETY: both have equal length, and the place is scratch.
            unsafe { device.queue(Step::Copy { from: input.address(), to: place.address, bytes: place.bytes }) }?;
        }
        device.launch_graph(&*self.graph, &self.launches)?;
        for (output, place) in outputs.iter().zip(&self.outputs) {
            // SAFETY: both have equal length, and the buffer is new.
            unsafe { device.queue(Step::Copy { from: place.address, to: output.address(), bytes: place.bytes }) }?;
        }
        Ok(outputs)
    }
}
