/// What a random stream is for: two uses of one seed never share numbers. 1 splits
/// data sets (`unspoken_store::Dataset::split`).
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Tables = 2,
    Logits = 3,
    Order = 4,
    Unknown = 5,
}
