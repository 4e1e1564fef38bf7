//! The recorder of a thread, which notes steps while a recording is made. It knows a device by its number.

#![expect(unsafe_code, reason = "copies arguments of kernels as bytes")]

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ptr::from_ref;
use std::sync::Arc;

use crate::counters::Launches;
use crate::driver::Step;
use crate::kernel::Kernel;

/// What lives as long as a recording that uses it.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

thread_local! {
    /// The recording that this thread makes.
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// What a thread has recorded so far.
pub(crate) struct Recorder {
    /// The number of the device.
    device: u64,
    pub(crate) steps: Vec<Step>,
    pub(crate) launches: BTreeMap<usize, Launches>,
    /// Buffers that steps may use and that are not scratch.
    pub(crate) kept: Vec<Kept>,
    pub(crate) refused: bool,
    /// Whether there was too little memory.
    pub(crate) short: bool,
}

/// Calls a function with the recorder of this thread, if it records on the device with this number.
pub(crate) fn with<T>(device: u64, call: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
    // A thread that ends drops buffers, too.
    let recorded = RECORDER.try_with(|recorder| {
        let mut recorder = recorder.borrow_mut();
        recorder.as_mut().filter(|recorder| recorder.device == device).map(call)
    });
    recorded.ok().flatten()
}

/// Whether this thread records on the device with this number.
pub(crate) fn is_on(device: u64) -> bool {
    with(device, |_| ()).is_some()
}

impl Recorder {
    /// Holds a buffer as long as the recording.
    pub(crate) fn keep(&mut self, buffer: Kept) {
        self.kept.push(buffer);
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

/// Begins to record on the device with this number, on this thread.
pub(crate) fn begin(device: u64) -> Ends {
    RECORDER.set(Some(Recorder {
        device,
        steps: Vec::new(),
        launches: BTreeMap::new(),
        kept: Vec::new(),
        refused: false,
        short: false,
    }));
    Ends
}

/// Ends the recording of this thread.
pub(crate) struct Ends;

impl Ends {
    /// Ends the recording. Returns what was recorded.
    pub(crate) fn end(self) -> Option<Recorder> {
        RECORDER.take()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        drop(RECORDER.with_borrow_mut(Option::take));
    }
}
