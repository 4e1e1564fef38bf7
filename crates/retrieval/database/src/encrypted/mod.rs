//! Databases of encrypted entries at a service, which their owner uploads and changes.
//!
//! The directory has the files of a database without tables, and entries in the place of cells: `cells-G.bin`,
//! `sums-G.bin`, `journal-G.log` and `newest-G.txt`. Its manifest is `encrypted.json`. `upload.log` is a journal with
//! the chunks of the last upload. A commit appends them as one frame to the journal of the generation, or writes the
//! next generation if the journal would become too large.
//!
//! If the journal of the generation would have more than 16 MiB, a commit writes the next generation instead. Then it
//! empties `upload.log`, whose header keeps the number and the base of the upload, so that a commit whose reply was
//! lost can be repeated. After a crash between the two steps, the base is below the current version, and opening
//! empties the file.
//!
//! One process has a store open; it holds `writer.lock`. The room that a store takes follows from its declaration: each
//! number of an entry occurs once in an upload.

mod declaration;
mod manifest;
mod staging;
mod store;

pub use declaration::Declaration;
pub use store::{EncryptedSnapshot, EncryptedStore};
