//! A device with its memory.

#![expect(unsafe_code, reason = "addresses of a device's memory")]

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytemuck::{NoUninit, cast_slice, cast_slice_mut};

use crate::counters::{Counters, Launches};
use crate::driver::{Driver, Graph, Step};
use crate::error::DeviceError;
use crate::health::Health;
use crate::idle::Idle;
use crate::kernel::{Address, Kernel, NAMES};
use crate::recorded::Recordings;
use crate::recorder::{self, Recorder};
use crate::work::Arguments;

/// Most blocks of a launch in the second and in the third direction.
pub const MAX_BLOCKS: usize = (1 << 16) - 1;

/// The length of a buffer in bytes is a multiple of this number.
const GRAIN: usize = 256;

/// Number of devices that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A device. Cheap to clone.
///
/// Where memory is short, the device gives back, in this order: memory that waits for use, recordings, and copies of
/// data in the memory of this process ([`DeviceCopy`](crate::DeviceCopy)).
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    /// Tells it from the other devices of the process.
    number: u64,
    driver: Box<dyn Driver>,
    /// Most bytes that are taken from the driver.
    most_bytes: AtomicUsize,
    /// Bytes that were taken from the driver.
    taken: AtomicUsize,
    /// Memory that waits for use.
    idle: Mutex<Idle>,
    /// Memory that recordings use, one after the other, and no buffer of a recording has.
    scratch: Mutex<Idle>,
    slots: Mutex<Slots>,
    recordings: Recordings,
    /// Numbers uses of copies.
    clock: AtomicU64,
    counters: Counters,
    health: Health,
}

/// Where a buffer returns to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    /// To the memory that waits for use.
    Idle,
    /// To the scratch of recordings.
    Scratch,
    /// As for [`Home::Idle`], also while a recording is made: it does not use the buffer.
    Evicted,
}

/// What a mutex protects is whole even if a thread panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Device").field(&self.0.driver.name()).finish()
    }
}

impl Device {
    /// The device of a driver.
    pub fn new(driver: impl Driver + 'static) -> Self {
        Device(Arc::new(Inner {
            number: MADE.fetch_add(1, Ordering::Relaxed),
            driver: Box::new(driver),
            most_bytes: AtomicUsize::new(usize::MAX),
            taken: AtomicUsize::new(0),
            idle: Mutex::default(),
            scratch: Mutex::default(),
            slots: Mutex::default(),
            recordings: Recordings::default(),
            clock: AtomicU64::new(1),
            counters: Counters::default(),
            health: Health::default(),
        }))
    }

    /// Whether it is the same as another one, with the same memory.
    pub fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its number, which no other device of the process has.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// Its name, such as `cuda:0`.
    pub fn name(&self) -> String {
        self.0.driver.name()
    }

    /// What it is, for people.
    pub fn model(&self) -> String {
        self.0.driver.model()
    }

    /// Its first failure, if it has failed. What it computes afterwards fails, too, until the process starts again.
    pub fn failure(&self) -> Option<&DeviceError> {
        self.0.health.failure()
    }

    /// Calls a function when it fails. Only the first function counts.
    pub fn on_failure(&self, tell: impl Fn(&DeviceError) + Send + Sync + 'static) {
        self.0.health.on_failure(tell);
    }

    /// Lets rings on it compute on the processor after it failed. What it alone had is lost.
    pub fn fall_back(&self) {
        self.0.health.fall_back();
    }

    /// Whether rings on it compute on the processor if it fails.
    pub fn falls_back(&self) -> bool {
        self.0.health.falls_back()
    }

    /// Why what the device alone has cannot be had: it has failed.
    ///
    /// # Errors
    /// If it has failed.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.failure().map_or(Ok(()), |failure| Err(self.0.health.told(failure.clone())))
    }

    /// Checks that operations on this device are computed: by the device, or, after it has failed, by the processor.
    ///
    /// # Errors
    /// If the device has failed and the processor does not take its place.
    pub fn check_ready(&self) -> Result<(), DeviceError> {
        if self.falls_back() { Ok(()) } else { self.check() }
    }

    /// Whether rings compute on this device: it has not failed, or rings on it must fail with it.
    pub fn is_in_use(&self) -> bool {
        !self.falls_back() || self.failure().is_none()
    }

    /// Takes at most `most_bytes` bytes of the device's memory from now on.
    pub fn limit_memory(&self, most_bytes: usize) {
        self.0.most_bytes.store(most_bytes, Ordering::Relaxed);
    }

    /// Number of recordings that can be repeated.
    pub fn recorded(&self) -> usize {
        self.0.recordings.count()
    }

    /// Bytes of its memory: free ones, and all.
    ///
    /// # Errors
    /// If the device failed.
    pub fn memory(&self) -> Result<(u64, u64), DeviceError> {
        self.0.health.noted(self.0.driver.memory())
    }

    /// Bytes of the device's memory that this process may have, including the bytes that it has already.
    ///
    /// # Errors
    /// If the device failed.
    pub fn usable_bytes(&self) -> Result<u64, DeviceError> {
        let (free, _) = self.memory()?;
        let taken = self.0.taken.load(Ordering::Relaxed) as u64;
        Ok((free + taken).min(self.0.most_bytes.load(Ordering::Relaxed) as u64))
    }

    /// Bytes of the device's memory that this process has taken: bytes in use, and bytes that wait for use.
    pub fn taken_bytes(&self) -> (usize, usize) {
        let waiting = locked(&self.0.idle).bytes() + locked(&self.0.scratch).bytes();
        (self.0.taken.load(Ordering::Relaxed).saturating_sub(waiting), waiting)
    }

    /// What was queued of each kernel so far, in the order of [`NAMES`].
    pub fn launches(&self) -> [Launches; NAMES.len()] {
        self.0.counters.launches()
    }

    /// Bytes that were copied to the device so far, and from it.
    pub fn copied_bytes(&self) -> [u64; 2] {
        self.0.counters.copied_bytes()
    }

    /// Memory for `words` words, with unspecified contents.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    pub fn buffer(&self, words: usize) -> Result<Buffer, DeviceError> {
        let home = if recorder::is_on(self.number()) { Home::Scratch } else { Home::Idle };
        self.buffer_of(words, home)
    }

    fn buffer_of(&self, words: usize, home: Home) -> Result<Buffer, DeviceError> {
        let bytes = (words.max(1) * size_of::<u32>()).next_multiple_of(GRAIN);
        let waiting = locked(self.0.pool(home)).take(bytes);
        let (address, bytes) = match waiting {
            Some(found) => found,
            None => (self.0.health.noted(self.allocate(bytes))?, bytes),
        };
        locked(self.0.pool(home)).in_use += 1;
        Ok(Buffer { device: self.clone(), address, bytes, words, home })
    }

    /// Takes memory from the driver, and makes room for it.
    fn allocate(&self, bytes: usize) -> Result<Address, DeviceError> {
        let mut result = self.take_memory(bytes);
        for make_room in [|_: &Self| (), Self::release_recordings] {
            if let Err(DeviceError::Memory { .. }) = result {
                make_room(self);
                self.0.release(Home::Idle, bytes);
                result = self.take_memory(bytes);
            }
        }
        while let Err(DeviceError::Memory { .. }) = result {
            if self.release_copies(bytes) == 0 {
                recorder::with(self.number(), Recorder::run_short);
                return result;
            }
            self.0.release(Home::Idle, bytes);
            result = self.take_memory(bytes);
        }
        result
    }

    fn take_memory(&self, bytes: usize) -> Result<Address, DeviceError> {
        let most = self.0.most_bytes.load(Ordering::Relaxed);
        let fits = |taken: usize| taken.checked_add(bytes).filter(|&taken| taken <= most);
        if let Err(taken) = self.0.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            let free = most.saturating_sub(taken) as u64;
            return Err(DeviceError::Memory { device: self.name(), free, needed: bytes as u64 });
        }
        self.0.driver.allocate(bytes).inspect_err(|_| self.0.returned(bytes))
    }

    /// Gives back the least recently used copies, until they amount to `bytes` bytes. Returns their bytes.
    fn release_copies(&self, bytes: usize) -> usize {
        let slots = locked(&self.0.slots).all();
        give_back(&slots, bytes)
    }

    /// Gives up all recordings that are not being made or repeated, and their memory.
    pub(crate) fn release_recordings(&self) {
        if let Some(_alone) = self.0.recordings.give_up() {
            self.0.release(Home::Scratch, usize::MAX);
        }
    }

    pub(crate) fn tick(&self) -> u64 {
        self.0.clock.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn new_slot(&self) -> Arc<Slot> {
        locked(&self.0.slots).add(self.clone())
    }

    /// A recording that is being made keeps a buffer that it uses.
    pub fn note_use(&self, buffer: &Arc<Buffer>) {
        if !buffer.is_scratch() {
            recorder::with(self.number(), |recorder| recorder.keep(buffer.clone()));
        }
    }

    /// The buffer, if nobody else has it, and a copy of it otherwise: to be changed. What a recording changes is its
    /// own.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    pub fn own(&self, buffer: &mut Arc<Buffer>) -> Result<(), DeviceError> {
        let is_own = Arc::get_mut(buffer).is_some() && buffer.is_scratch() == recorder::is_on(self.number());
        if !is_own {
            self.note_use(buffer);
            *buffer = Arc::new(buffer.duplicate()?);
        }
        Ok(())
    }

    /// Number of buffers that a recording uses.
    pub(crate) fn scratch_in_use(&self) -> usize {
        locked(&self.0.scratch).in_use
    }

    /// Notes that the device cannot be trusted any more.
    pub(crate) fn fail<T>(&self, what: &'static str, reason: &str) -> Result<T, DeviceError> {
        self.0.health.noted(Err(DeviceError::Failed { device: self.name(), what, reason: reason.into() }))
    }

    pub(crate) fn recordings(&self) -> &Recordings {
        &self.0.recordings
    }

    /// Queues a step that is no kernel.
    ///
    /// # Safety
    /// As for the driver's function.
    pub(crate) unsafe fn queue(&self, step: Step) -> Result<(), DeviceError> {
        let mut step = Some(step);
        recorder::with(self.number(), |recorder| recorder.steps.extend(step.take()));
        // SAFETY: the caller's.
        step.map_or(Ok(()), |step| self.0.health.noted(unsafe { step.queue(&*self.0.driver) }))
    }

    /// Makes a graph.
    ///
    /// # Safety
    /// As for [`Driver::graph`].
    pub(crate) unsafe fn graph(&self, steps: Vec<Step>) -> Result<Box<dyn Graph>, DeviceError> {
        // A driver that makes no graph may work without.
        // SAFETY: the caller's.
        unsafe { self.0.driver.graph(steps) }
    }

    /// Queues a graph, which has these launches.
    pub(crate) fn launch_graph(&self, graph: &dyn Graph, launches: &[(usize, Launches)]) -> Result<(), DeviceError> {
        launches.iter().for_each(|(kernel, launches)| self.0.counters.count(*kernel, launches));
        self.0.health.noted(graph.launch(&*self.0.driver))
    }

    /// Memory with these words.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    pub fn upload<T: NoUninit>(&self, items: &[T]) -> Result<Buffer, DeviceError> {
        // What is copied now is not scratch of a recording: it is not copied again.
        let buffer = self.buffer_of(size_of_val(items).div_ceil(size_of::<u32>()), Home::Idle)?;
        self.0.counters.count_written(size_of_val(items));
        // SAFETY: the buffer has room for all bytes.
        self.0.health.noted(unsafe { self.0.driver.write(buffer.address, cast_slice(items)) })?;
        Ok(buffer)
    }

    /// Queues a kernel with `blocks` blocks in each direction.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Safety
    /// What the arguments point to is memory of this device, large enough for what the kernel reads and writes there,
    /// and buffers that are not dropped before the call.
    pub unsafe fn launch<A: Arguments>(
        &self,
        kernel: Kernel<A>,
        blocks: [usize; 3],
        arguments: &A,
    ) -> Result<(), DeviceError> {
        if blocks.contains(&0) {
            return Ok(());
        }
        if blocks[1].max(blocks[2]) > MAX_BLOCKS {
            return Err(DeviceError::Blocks { device: self.name(), kernel: NAMES[kernel.number()], found: blocks });
        }
        let count = blocks.iter().product::<usize>() as u64;
        let launches = Launches { launches: 1, blocks: count, work: arguments.work(kernel.number(), blocks) };
        let blocks = blocks.map(|count| count as u32);
        let recorded = recorder::with(self.number(), |recorder| recorder.launch(kernel, blocks, arguments, launches));
        if recorded.is_some() {
            return Ok(());
        }
        self.0.counters.count(kernel.number(), &launches);
        let arguments = NonNull::from(arguments).cast();
        // SAFETY: the arguments are of the kernel's type; the rest is the caller's.
        self.0.health.noted(unsafe { self.0.driver.launch(kernel.number(), blocks, arguments) })
    }
}

impl Inner {
    fn pool(&self, home: Home) -> &Mutex<Idle> {
        match home {
            Home::Idle | Home::Evicted => &self.idle,
            Home::Scratch => &self.scratch,
        }
    }

    fn returned(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Gives memory that waits for use back to the driver, until this amounts to `needed` bytes.
    fn release(&self, home: Home, needed: usize) {
        let mut released = 0;
        while released < needed {
            let taken = locked(self.pool(home)).take_to_release(needed - released);
            let Some((address, bytes)) = taken else { return };
            // SAFETY: it was allocated with these bytes, and no buffer has it.
            unsafe { self.driver.free(address, bytes) };
            self.returned(bytes);
            released += bytes;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.release(Home::Idle, usize::MAX);
        self.release(Home::Scratch, usize::MAX);
    }
}

/// Memory of a device. Dropped, it waits for the next that needs as much.
pub struct Buffer {
    device: Device,
    address: Address,
    /// Bytes of the memory, of which the words are the first.
    bytes: usize,
    words: usize,
    home: Home,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("device", &self.device).field("words", &self.words).finish_non_exhaustive()
    }
}

impl Buffer {
    /// Where it begins.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The address of a word.
    pub fn at(&self, word: usize) -> Address {
        self.address + (word * size_of::<u32>()) as u64
    }

    /// Its length in words.
    pub fn len(&self) -> usize {
        self.words
    }

    /// Whether it is memory of recordings.
    pub(crate) fn is_scratch(&self) -> bool {
        self.home == Home::Scratch
    }

    /// Gives it back, though a recording is being made.
    pub(crate) fn evict(mut self) {
        self.home = Home::Evicted;
    }

    /// Bytes of its words.
    pub(crate) fn word_bytes(&self) -> usize {
        self.words * size_of::<u32>()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has no words.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Copies words from it, from word `at` on.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Panics
    /// If it is too short.
    pub fn read(&self, at: usize, words: &mut [u32]) -> Result<(), DeviceError> {
        assert!(at + words.len() <= self.words, "{} words at {at} of {}", words.len(), self.words);
        if recorder::with(self.device.number(), Recorder::refuse).is_some() {
            return Err(DeviceError::Recording { device: self.device.name() });
        }
        self.device.0.counters.count_read(size_of_val(words));
        // SAFETY: the buffer has room for all bytes.
        self.device.0.health.noted(unsafe { self.device.0.driver.read(self.at(at), cast_slice_mut(words)) })
    }

    /// Fills it with zeros.
    ///
    /// # Errors
    /// If the device failed.
    pub fn clear(&mut self) -> Result<(), DeviceError> {
        // SAFETY: the buffer has room for all bytes.
        unsafe { self.device.queue(Step::Clear { at: self.address, bytes: self.word_bytes() }) }
    }

    /// A copy on the same device.
    ///
    /// # Errors
    /// [`DeviceError::Memory`], or if the device failed.
    pub fn duplicate(&self) -> Result<Buffer, DeviceError> {
        let copy = self.device.buffer(self.words)?;
        // SAFETY: both have equal length, and are different buffers.
        unsafe { self.device.queue(Step::Copy { from: self.address, to: copy.address, bytes: self.word_bytes() }) }?;
        Ok(copy)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let whole = || Buffer { device: self.device.clone(), ..*self };
        // A recording that is being made may have its address.
        let is_kept = self.home == Home::Idle
            && recorder::with(self.device.number(), |recorder| recorder.keep(Arc::new(whole()))).is_some();
        if !is_kept {
            let mut idle = locked(self.device.0.pool(self.home));
            idle.in_use -= 1;
            idle.add(self.address, self.bytes);
        }
    }
}

/// The place of a copy. The device knows all of its places.
pub(crate) struct Slot {
    pub(crate) device: Device,
    number: u64,
    buffer: Mutex<Option<Arc<Buffer>>>,
    /// When it was last used.
    pub(crate) used: AtomicU64,
}

impl Slot {
    pub(crate) fn buffer(&self) -> MutexGuard<'_, Option<Arc<Buffer>>> {
        locked(&self.buffer)
    }

    /// When it was last used, if it has a copy.
    fn last_use(&self) -> Option<u64> {
        // A copy that is being made is in use.
        let buffer = self.buffer.try_lock().ok()?;
        buffer.as_ref().map(|_| self.used.load(Ordering::Relaxed))
    }

    /// The copy, if nobody uses it.
    fn take_unused(&self) -> Option<Buffer> {
        // Who wants to use it waits for this lock.
        let mut buffer = self.buffer.try_lock().ok()?;
        buffer.take_if(|buffer| Arc::strong_count(buffer) == 1).and_then(Arc::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        locked(&self.device.0.slots).forget(self.number);
    }
}

/// All places of copies on a device.
#[derive(Default)]
struct Slots {
    by_number: BTreeMap<u64, Weak<Slot>>,
    made: u64,
}

impl Slots {
    /// A new place.
    fn add(&mut self, device: Device) -> Arc<Slot> {
        let number = self.made;
        self.made += 1;
        let slot = Arc::new(Slot { device, number, buffer: Mutex::default(), used: AtomicU64::new(0) });
        self.by_number.insert(number, Arc::downgrade(&slot));
        slot
    }

    fn forget(&mut self, number: u64) {
        self.by_number.remove(&number);
    }

    fn all(&self) -> Vec<Arc<Slot>> {
        self.by_number.values().filter_map(Weak::upgrade).collect()
    }
}

/// Gives back copies that nobody uses, the least recently used first, until they amount to `needed` bytes. Returns
/// their bytes.
fn give_back(slots: &[Arc<Slot>], needed: usize) -> usize {
    let mut by_use: Vec<(u64, &Arc<Slot>)> = slots.iter().filter_map(|slot| Some((slot.last_use()?, slot))).collect();
    by_use.sort_by_key(|(used, _)| *used);
    let mut bytes = 0;
    for (_, slot) in by_use {
        if bytes >= needed {
            break;
        }
        if let Some(buffer) = slot.take_unused() {
            bytes += buffer.bytes();
            buffer.evict();
        }
    }
    bytes
}
