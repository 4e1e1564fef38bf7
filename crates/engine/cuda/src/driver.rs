//! Devices of the CUDA driver.

#![expect(unsafe_code, reason = "calls the driver")]

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, CudaStream, sys};
use unspoken_device::kernel::THREADS;
use unspoken_device::{Address, Device, DeviceError, Driver, Graph, NAMES, Step};

use crate::IMAGE;

/// A device that the driver knows.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name for [`open`].
    pub name: String,
    /// What it is, for people.
    pub model: String,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory: u64,
}

/// The devices of this machine.
///
/// # Errors
/// If there is no driver, or it does not start.
pub fn devices() -> Result<Vec<Found>, DeviceError> {
    let refuse = |error| unavailable("cuda", &format!("the driver does not start ({})", text(error)));
    start("cuda")?;
    (0..result::device::get_count().map_err(refuse)?).map(|ordinal| found(ordinal).map_err(refuse)).collect()
}

fn found(ordinal: i32) -> Result<Found, DriverError> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    let device = result::device::get(ordinal)?;
    // SAFETY: the device is one of the driver's.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) };
    let capability = (attribute(MAJOR)?.unsigned_abs(), attribute(MINOR)?.unsigned_abs());
    // SAFETY: the device is one of the driver's.
    let memory = unsafe { result::device::total_mem(device) }? as u64;
    Ok(Found { name: format!("cuda:{ordinal}"), model: result::device::get_name(device)?, capability, memory })
}

/// Memory that is left to the driver: this number of bytes, or one part in `RESERVED_PART` of all memory.
const RESERVE: u64 = 256 << 20;
const RESERVED_PART: u64 = 50;

/// Opens a device by name, `cuda:0` for the first one, and loads the kernels.
///
/// # Errors
/// [`DeviceError::Unavailable`], which says what is missing.
pub fn open(name: &str) -> Result<Device, DeviceError> {
    let number = name.strip_prefix("cuda:").and_then(|number| number.parse::<u16>().ok());
    let Some(number) = number else {
        return Err(unavailable(name, "no such name; needed one like cuda:0"));
    };
    start(name)?;
    let refuse = |what: &str| {
        let (name, what) = (name.to_owned(), what.to_owned());
        move |error| unavailable(&name, &format!("{what} ({})", text(error)))
    };
    let count = result::device::get_count().map_err(refuse("the driver counts no devices"))?;
    if i32::from(number) >= count {
        return Err(unavailable(name, &format!("found {count} devices; `unspoken devices` lists them")));
    }
    let model = found(i32::from(number)).map_err(refuse("it does not answer"))?.model;
    let context = CudaContext::new(usize::from(number)).map_err(refuse("it cannot be used"))?;
    let stream = || context.new_stream().map_err(refuse("it has no queue"));
    let streams = Streams { work: stream()?, reads: stream()?, captured: stream()? };
    let old = "its driver does not load the kernels; needed a driver of CUDA 13.0 or later";
    // SAFETY: the image is a fat binary, which has its length in itself.
    let module = unsafe { result::module::load_data(IMAGE.as_ptr().cast()) }.map_err(refuse(old))?;
    let function = |kernel: &&str| {
        let kernel = CString::new(*kernel).unwrap_or_default();
        // SAFETY: the module is loaded, and never unloaded.
        unsafe { result::module::get_function(module, kernel) }.map_err(refuse("a kernel is missing"))
    };
    let functions = Functions(NAMES.iter().map(function).collect::<Result<_, _>>()?);
    let (name, stream) = (name.to_owned(), Arc::clone(&streams.work));
    let device = Device::new(Cuda { name, model, context, streams, stream, functions: Arc::new(functions) });
    // The driver needs memory, too: for graphs, and for what it loads late.
    let (free, all) = device.memory()?;
    device.limit_memory(free.saturating_sub(RESERVE.max(all / RESERVED_PART)) as usize);
    Ok(device)
}

/// Starts the driver, if there is one.
fn start(name: &str) -> Result<(), DeviceError> {
    // SAFETY: a library is opened, which the driver's are made for.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable(name, "found no driver (libcuda.so.1); install NVIDIA's, or use the processor"));
    }
    result::init().map_err(|error| unavailable(name, &format!("the driver does not start ({})", text(error))))
}

fn unavailable(name: &str, reason: &str) -> DeviceError {
    DeviceError::Unavailable { name: name.into(), reason: reason.into() }
}

/// What the driver says of an error.
fn text(error: DriverError) -> String {
    let said =
        |text: Result<&CStr, _>| -> String { text.map_or_else(|_| "?".into(), |text| text.to_string_lossy().into()) };
    format!("{}: {}", said(error.error_name()), said(error.error_string()))
}

/// Functions of a module that is never unloaded.
struct Functions(Vec<sys::CUfunction>);

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Functions {}
// SAFETY: as above.
unsafe impl Sync for Functions {}

#[derive(Clone)]
struct Cuda {
    name: String,
    model: String,
    context: Arc<CudaContext>,
    streams: Streams,
    /// Where work is queued.
    stream: Arc<CudaStream>,
    functions: Arc<Functions>,
}

/// The queues of a device.
#[derive(Clone)]
struct Streams {
    work: Arc<CudaStream>,
    /// For what is read: it waits for the work that was queued before, and not for later work.
    reads: Arc<CudaStream>,
    /// Where graphs are captured. Nothing is computed there.
    captured: Arc<CudaStream>,
}

/// A graph that can be launched.
struct Executable {
    graph: sys::CUgraphExec,
    cuda: Cuda,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Executable {}

impl Graph for Executable {
    fn launch(&self, _: &dyn Driver) -> Result<(), DeviceError> {
        // SAFETY: the graph and the stream are valid.
        self.cuda.call("launch a graph", |stream| unsafe { result::graph::launch(self.graph, stream) })
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the graph is valid, and destroyed once. The driver waits for its launches. A failure leaks the memory
        // of a device that failed.
        let _ = self.cuda.call("destroy a graph", |_| unsafe { result::graph::exec_destroy(self.graph) });
    }
}

impl Cuda {
    fn failed(&self, what: &'static str, error: DriverError) -> DeviceError {
        DeviceError::Failed { device: self.name.clone(), what, reason: text(error) }
    }

    /// Calls the driver for this device.
    fn call<T>(
        &self,
        what: &'static str,
        call: impl FnOnce(sys::CUstream) -> Result<T, DriverError>,
    ) -> Result<T, DeviceError> {
        let bound = self.context.bind_to_thread();
        bound.and_then(|()| call(self.stream.cu_stream())).map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => self.short_of(0),
            error => self.failed(what, error),
        })
    }

    /// The error for `bytes` bytes of memory that the device does not have.
    fn short_of(&self, bytes: usize) -> DeviceError {
        let bound = self.context.bind_to_thread();
        match bound.and_then(|()| result::mem_get_info()) {
            Ok((free, _)) => DeviceError::Memory { device: self.name.clone(), free: free as u64, needed: bytes as u64 },
            Err(error) => self.failed("tell its memory", error),
        }
    }
}

// SAFETY: memory is the driver's until it is freed; copies and kernels are queued in one stream, and reads wait for it.
unsafe impl Driver for Cuda {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn model(&self) -> String {
        self.model.clone()
    }

    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        let (free, all) = self.call("tell its memory", |_| result::mem_get_info())?;
        Ok((free as u64, all as u64))
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DeviceError> {
        // SAFETY: the size is not zero.
        let allocated = self.call("allocate", |_| unsafe { result::malloc_sync(bytes.max(1)) });
        allocated.map_err(|error| match error {
            DeviceError::Memory { device, free, .. } => DeviceError::Memory { device, free, needed: bytes as u64 },
            error => error,
        })
    }

    unsafe fn free(&self, address: Address, _: usize) {
        // SAFETY: it was allocated and not freed; the driver waits for what uses it. A failure leaks the memory of a
        // device that failed.
        let _ = self.call("free", |_| unsafe { result::free_sync(address) });
    }

    unsafe fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        // From memory that is not pinned, the call returns when the bytes are read. SAFETY: the place has room for all
        // bytes.
        self.call("write", |stream| unsafe { result::memcpy_htod_async(to, bytes, stream) })
    }

    unsafe fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        use sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as UNTIMED;
        use sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT as WAIT;
        let reads = self.streams.reads.cu_stream();
        // SAFETY: the place has room for all bytes, and the bytes are not used before the copy is done. The event is
        // destroyed once, which the driver does when it is over.
        self.call("read", |stream| unsafe {
            let event = result::event::create(UNTIMED)?;
            let queued = result::event::record(event, stream)
                .and_then(|()| result::stream::wait_event(reads, event, WAIT))
                .and_then(|()| result::memcpy_dtoh_async(bytes, from, reads));
            let done = result::stream::synchronize(reads);
            result::event::destroy(event)?;
            queued.and(done)
        })
    }

    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: both places have room for all bytes.
        self.call("copy", |stream| unsafe { result::memcpy_dtod_async(to, from, bytes, stream) })
    }

    unsafe fn clear(&self, at: Address, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the place has room for all bytes.
        self.call("clear", |stream| unsafe { result::memset_d8_async(at, 0, bytes, stream) })
    }

    unsafe fn launch(&self, kernel: usize, [x, y, z]: [u32; 3], arguments: NonNull<c_void>) -> Result<(), DeviceError> {
        let function = self.functions.0[kernel];
        // SAFETY: the function is the kernel's, with one parameter; the driver copies the parameter before it returns.
        self.call("launch", |stream| unsafe {
            let threads = THREADS as u32;
            result::launch_kernel(function, (x, y, z), (threads, 1, 1), 0, stream, &mut [arguments.as_ptr()])
        })
    }

    unsafe fn graph(&self, steps: Vec<Step>) -> Result<Box<dyn Graph>, DeviceError> {
        let capturing = Cuda { stream: Arc::clone(&self.streams.captured), ..self.clone() };
        // Other threads use the device meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is valid, and its capture ends below. The steps are the caller's.
        let queued = unsafe {
            capturing.call("begin a graph", |stream| result::stream::begin_capture(stream, mode))?;
            steps.iter().try_for_each(|step| step.queue(&capturing))
        };
        // SAFETY: the stream captures.
        let captured = capturing.call("end a graph", |stream| unsafe { result::stream::end_capture(stream) })?;
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph is valid.
        let instantiate = |_| unsafe { result::graph::instantiate(captured, flags) };
        let made = queued.and_then(|()| self.call("make a graph", instantiate));
        // SAFETY: the graph is valid, and destroyed once. A failure leaks the memory of a device that failed.
        let _ = self.call("destroy a graph", |_| unsafe { result::graph::destroy(captured) });
        Ok(Box::new(Executable { graph: made?, cuda: self.clone() }))
    }
}
