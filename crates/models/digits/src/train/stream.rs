/// What a random stream is for: two uses of one seed never share numbers.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Start = 1,
    Order = 2,
    Shifts = 3,
}
