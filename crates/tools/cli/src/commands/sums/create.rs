//! `unspoken sums create`

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_files::{Access, replace_file};
use unspoken_sums::{CollectionOptions, Column, create};

/// Make a collection: a public file for the service, and a private one
///
/// Writes NAME.public, which the service needs and everybody may see, and NAME.private, which decrypts the sums and is
/// readable by its owner only. Give contributors the fingerprint that is printed. A collection has one sum: make a new
/// one for another period.
#[derive(clap::Args)]
pub struct Arguments {
    /// A number of each contribution: name and largest value, or both ends of the range, which contains 0. Once for
    /// each column, in the order of a contribution
    #[arg(long = "column", value_name = "NAME=[SMALLEST..]LARGEST", required = true)]
    columns: Vec<Column>,
    /// Most contributions that are added. More, and larger values, need larger parameters
    #[arg(long, value_name = "COUNT")]
    most: u32,
    /// Contributions below which the service does not release the sum, at least 2
    #[arg(long, value_name = "COUNT")]
    least: u32,
    /// Path of the two files without their endings
    name: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let [public, private] = ["public", "private"].map(|ending| arguments.name.with_added_extension(ending));
    for path in [&public, &private] {
        anyhow::ensure!(
            !path.try_exists().with_context(|| format!("cannot look for {}", path.display()))?,
            "{} exists; without it, what was sent to its collection is lost: choose another name",
            path.display()
        );
    }
    let (description, key) = create(&CollectionOptions {
        columns: arguments.columns.clone(),
        most_contributions: arguments.most,
        least_contributions: arguments.least,
    })?;
    let write = |path: &Path, bytes: &[u8], access| {
        replace_file(path, bytes, access).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&private, &key.to_bytes(), Access::Owner)?;
    write(&public, &description.to_bytes(), Access::Umask)?;
    println!("private     {}, for the collector alone", private.display());
    println!("public      {}", public.display());
    println!("fingerprint {}", description.fingerprint());
    println!("preset      {}, {} bytes for each contribution", description.preset(), description.contribution_bytes());
    println!("serve with  unspoken serve --offer sums={}", public.display());
    Ok(())
}
