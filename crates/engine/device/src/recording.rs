//! Work that is queued as one when it is repeated.
//!
//! The first time, work is done as it is, which fills all caches. The second time it is recorded: kernels and copies
//! are noted, not queued, and use memory that all recordings of a device share, because only one is repeated at a time.
//! From then on a repetition copies the inputs to their places there, launches the graph, and copies the results.

#![expect(unsafe_code, reason = "addresses of a device's memory")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ptr::from_ref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::device::{Buffer, Device, Launches};
use crate::driver::{Graph, Step};
use crate::error::DeviceError;
use crate::kernel::{Address, Kernel};

thread_local! {
    /// The recording that this thread makes.
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// What a thread has recorded so far.
pub(crate) struct Recorder {
    device: Device,
    pub(crate) steps: Vec<Step>,
    launches: BTreeMap<usize, Launches>,
    /// Buffers that steps may use and that are not scratch.
    kept: Vec<Arc<Buffer>>,
    refused: bool,
}

/// Calls a function with the recorder of this thread, if it records on this device.
pub(crate) fn with<T>(device: &Device, call: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
    // A thread that ends drops buffers, too.
    let recorded = RECORDER.try_with(|recorder| {
        let mut recorder = recorder.borrow_mut();
        recorder.as_mut().filter(|recorder| recorder.device.is_same(device)).map(call)
    });
    recorded.ok().flatten()
}

/// Whether this thread records on this device.
pub(crate) fn is_on(device: &Device) -> bool {
    with(device, |_| ()).is_some()
}

impl Recorder {
    /// Holds a buffer as long as the recording.
    pub(crate) fn keep(&mut self, buffer: impl Into<Arc<Buffer>>) {
        self.kept.push(buffer.into());
    }

    /// Notes that work cannot be recorded.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Notes a kernel.
    pub(crate) fn launch<A>(&mut self, kernel: Kernel<A>, blocks: [u32; 3], arguments: &A, launches: Launches) {
        let mut words = Box::new_uninit_slice(size_of::<A>().div_ceil(size_of::<u64>()));
        const { assert!(align_of::<A>() <= align_of::<u64>()) };
        // SAFETY: the words are at least as long as the arguments, which are plain bytes, some of them unspecified.
        unsafe {
            let to = words.as_mut_ptr().cast::<MaybeUninit<u8>>();
            to.copy_from_nonoverlapping(from_ref(arguments).cast(), size_of::<A>());
        }
        self.steps.push(Step::Launch { kernel: kernel.number(), blocks, arguments: words });
        self.launches.entry(kernel.number()).or_default().add(&launches);
    }
}

/// Work that a device does again and again, on other inputs of the same lengths: see [`Device::repeat`].
#[derive(Default)]
pub struct Recording(Arc<Mutex<State>>);

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

#[derive(Default)]
enum State {
    /// Not done yet.
    #[default]
    New,
    /// Done before, so that caches are full.
    Done,
    Recorded(Recorded),
    /// It cannot be recorded.
    Unfit,
}

struct Recorded {
    device: Device,
    graph: Box<dyn Graph>,
    launches: Vec<(usize, Launches)>,
    inputs: Vec<Place>,
    outputs: Vec<Place>,
    _kept: Vec<Arc<Buffer>>,
}

/// Where a buffer of a recording is.
struct Place {
    address: Address,
    words: usize,
    bytes: usize,
}

impl Place {
    fn of(buffer: &Arc<Buffer>) -> Self {
        Place { address: buffer.address(), words: buffer.len(), bytes: buffer.word_bytes() }
    }
}

/// The recordings of a device.
#[derive(Default)]
pub(crate) struct Recordings {
    /// Held while a recording is made or repeated.
    alone: Mutex<()>,
    made: Mutex<Vec<Weak<Mutex<State>>>>,
    /// One thread, which does work that is recorded: what it does in parallel elsewhere it does itself there.
    thread: OnceLock<Option<ThreadPool>>,
}

impl Recordings {
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self) -> MutexGuard<'_, Vec<Weak<Mutex<State>>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn thread(&self) -> Option<&ThreadPool> {
        let start = || ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "recorder".into()).build().ok();
        self.thread.get_or_init(start).as_ref()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.made().iter().filter(|state| state.strong_count() > 0).count()
    }

    fn add(&self, state: &Arc<Mutex<State>>) {
        let mut made = self.made();
        made.retain(|state| state.strong_count() > 0);
        made.push(Arc::downgrade(state));
    }

    /// Gives up all recordings. Returns a guard if there are none now; there will be none as long as it is held.
    pub(crate) fn give_up(&self) -> Option<MutexGuard<'_, ()>> {
        let alone = self.alone.try_lock().ok()?;
        let made = std::mem::take(&mut *self.made());
        let mut in_use = Vec::new();
        for state in made.iter().filter_map(Weak::upgrade) {
            match state.try_lock() {
                Ok(mut state) => *state = State::Done,
                Err(_) => in_use.push(Arc::downgrade(&state)),
            }
        }
        let none = in_use.is_empty();
        self.made().extend(in_use);
        none.then_some(alone)
    }
}

/// Ends the recording of this thread.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        drop(RECORDER.with_borrow_mut(Option::take));
    }
}

impl Device {
    /// Does work, which computes buffers from buffers, and records it if it was done before. What it does must depend on
    /// the lengths of its inputs alone. All threads that it computes on must be of the rayon pool that it runs in.
    ///
    /// # Errors
    /// Those of the work, or if the device failed.
    pub fn repeat<E: From<DeviceError> + Send>(
        &self,
        recording: &Recording,
        inputs: &[Arc<Buffer>],
        work: impl Fn(&[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>, E> + Sync,
    ) -> Result<Vec<Arc<Buffer>>, E> {
        let Recording(shared) = recording;
        // Work within work is a part of it, and so is work that another thread records now.
        let Some(mut state) = shared.try_lock().ok().filter(|_| !is_on(self)) else { return work(inputs) };
        if matches!(*state, State::New) {
            drop(state);
            let outputs = work(inputs)?;
            if let Ok(mut state) = shared.try_lock()
                && matches!(*state, State::New)
            {
                *state = State::Done;
            }
            return Ok(outputs);
        }
        if matches!(*state, State::Done) {
            let alone = self.recordings().alone();
            let recorded = self.recordings().thread().map(|thread| thread.install(|| self.record(inputs, &work)));
            drop(alone);
            match recorded {
                Some(Ok(Some(recorded))) => {
                    *state = State::Recorded(recorded);
                    self.recordings().add(shared);
                }
                Some(Ok(None)) | None => *state = State::Unfit,
                // Without a recording there may be memory enough.
                Some(Err(_)) => self.release_recordings(),
            }
        }
        match &*state {
            State::Recorded(recorded) if recorded.fits(self, inputs) => Ok(recorded.repeated(inputs)?),
            _ => {
                drop(state);
                work(inputs)
            }
        }
    }

    /// Records work; nothing if it cannot be recorded.
    fn record<E: From<DeviceError>>(
        &self,
        inputs: &[Arc<Buffer>],
        work: impl Fn(&[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>, E>,
    ) -> Result<Option<Recorded>, E> {
        let (device, kept) = (self.clone(), Vec::new());
        let recorder = Recorder { device, steps: Vec::new(), launches: BTreeMap::new(), kept, refused: false };
        RECORDER.set(Some(recorder));
        let ends = Ends;
        let places = inputs.iter().map(|input| Ok(Arc::new(self.buffer(input.len())?)));
        let result = places.collect::<Result<Vec<_>, E>>().and_then(|places| Ok((work(&places)?, places)));
        let recorder = RECORDER.take();
        drop(ends);
        let Some(mut recorder) = recorder.filter(|recorder| !recorder.refused) else { return Ok(None) };
        let (outputs, inputs) = result?;
        let [inputs, outputs] = [inputs, outputs].map(|buffers| {
            let places = buffers.iter().map(Place::of).collect();
            recorder.kept.extend(buffers.into_iter().filter(|buffer| !buffer.is_scratch()));
            places
        });
        if self.scratch_in_use() > 0 {
            return Ok(self.fail("record", "results of a recording are in use")?);
        }
        let Recorder { steps, launches, kept, .. } = recorder;
        // SAFETY: the steps were safe one by one. Of the memory that they use, buffers are kept, scratch is given back
        // only when there are no recordings, and all else lives as long as the ring whose work it is.
        let Ok(graph) = (unsafe { self.graph(steps) }) else { return Ok(None) };
        let launches = launches.into_iter().collect();
        Ok(Some(Recorded { device: self.clone(), graph, launches, inputs, outputs, _kept: kept }))
    }
}

impl Recorded {
    fn fits(&self, device: &Device, inputs: &[Arc<Buffer>]) -> bool {
        let words = inputs.iter().map(|input| input.len());
        self.device.is_same(device) && words.eq(self.inputs.iter().map(|place| place.words))
    }

    fn repeated(&self, inputs: &[Arc<Buffer>]) -> Result<Vec<Arc<Buffer>>, DeviceError> {
        let device = &self.device;
        let outputs = self.outputs.iter().map(|place| device.buffer(place.words).map(Arc::new));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let _alone = device.recordings().alone();
        for (input, place) in inputs.iter().zip(&self.inputs) {
            // SAFETY: both have as many bytes, and the place is scratch.
            unsafe { device.queue(Step::Copy { from: input.address(), to: place.address, bytes: place.bytes }) }?;
        }
        device.launch_graph(&*self.graph, &self.launches)?;
        for (output, place) in outputs.iter().zip(&self.outputs) {
            // SAFETY: both have as many bytes, and the buffer is new.
            unsafe { device.queue(Step::Copy { from: place.address, to: output.address(), bytes: place.bytes }) }?;
        }
        Ok(outputs)
    }
}
