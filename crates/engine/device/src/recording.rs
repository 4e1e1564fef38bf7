//! Work that is queued as one when it is repeated.
//!
//! The first time, work is done as it is, which fills all caches. The second time it is recorded: kernels and copies
//! are noted, not queued, and use memory that all recordings of a device share, because only one is repeated at a time.
//! From then on a repetition copies the inputs to their places there, launches the graph, and copies the results.

#![expect(unsafe_code, reason = "addresses of a device's memory")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::panic::resume_unwind;
use std::ptr::from_ref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::device::{Buffer, Device, Launches};
use crate::driver::{Graph, Step};
use crate::error::DeviceError;
use crate::kernel::{Address, Kernel};
use crate::operation::Operation;

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
    /// Whether there was too little memory.
    short: bool,
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

    /// Notes that there was too little memory.
    pub(crate) fn run_short(&mut self) {
        self.short = true;
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
    Done {
        /// How often there was too little memory to record it.
        shortages: u32,
    },
    Recorded(Recorded),
    /// It cannot be recorded.
    Unfit,
}

impl State {
    const DONE: State = State::Done { shortages: 0 };
}

/// Times that there may be too little memory for a recording until it is not tried again.
const MAX_SHORTAGES: u32 = 2;

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
    /// One thread, which runs the work that is recorded. Work that otherwise runs in parallel runs on this thread
    /// alone.
    thread: OnceLock<Option<ThreadPool>>,
}

impl Recordings {
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_alone(&self) -> Option<MutexGuard<'_, ()>> {
        match self.alone.try_lock() {
            Ok(alone) => Some(alone),
            Err(TryLockError::Poisoned(alone)) => Some(alone.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
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
        let alone = self.try_alone()?;
        let made = std::mem::take(&mut *self.made());
        let mut in_use = Vec::new();
        for state in made.iter().filter_map(Weak::upgrade) {
            match state.try_lock() {
                Ok(mut state) => *state = State::DONE,
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
        let Some(mut state) = shared.try_lock().ok().filter(|_| !is_on(self)) else { return work(inputs) };
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
            State::Recorded(recorded) if recorded.fits(self, inputs) => Ok(recorded.repeated(inputs)?),
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
        RECORDER.set(Some(Recorder {
            device: self.clone(),
            steps: Vec::new(),
            launches: BTreeMap::new(),
            kept: Vec::new(),
            refused: false,
            short: false,
        }));
        let ends = Ends;
        let operation = Operation::begin();
        let places = inputs.iter().map(|input| Ok(Arc::new(self.buffer(input.len())?)));
        let result = places.collect::<Result<Vec<_>, E>>().and_then(|places| Ok((work(&places)?, places)));
        drop(operation);
        let recorder = RECORDER.take();
        drop(ends);
        match recorder.filter(|recorder| !recorder.refused) {
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
            let places = buffers.iter().map(Place::of).collect();
            kept.extend(buffers.into_iter().filter(|buffer| !buffer.is_scratch()));
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
