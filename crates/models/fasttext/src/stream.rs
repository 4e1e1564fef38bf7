/// Purpose of a random stream. Streams of different purposes never share numbers under one seed. Stream 1 splits data
/// sets (`unspoken_store::Dataset::split`).
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Tables = 2,
    Logits = 3,
    Order = 4,
    Unknown = 5,
}
