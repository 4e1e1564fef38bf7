/// What a random stream is for: two uses of one seed never share numbers.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Split = 1,
    Tables = 2,
    Logits = 3,
    Order = 4,
    Unknown = 5,
}
