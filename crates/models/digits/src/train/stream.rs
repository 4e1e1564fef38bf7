/// Purpose of a random stream. Streams of different purposes never share numbers under one seed.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Start = 1,
    Order = 2,
    Shifts = 3,
}
