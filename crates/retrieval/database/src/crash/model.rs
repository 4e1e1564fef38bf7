//! Model of a file system that tracks what is durable.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Component, Path};

use super::Step;

/// Number of a file or a directory.
type Inode = usize;

/// Directories and files as a program sees them, or as a power failure leaves them.
#[derive(Clone, Default)]
struct State {
    dirs: HashMap<Inode, BTreeMap<String, Inode>>,
    files: HashMap<Inode, Vec<u8>>,
}

/// Kind of a crash, which determines what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process ended: all its changes are left.
    Kill,
    /// The machine stopped: content that was not synced is lost, names are not.
    Content,
    /// The machine stopped: content and names that were not synced are lost.
    All,
}

/// The model. Its root is the directory of the test.
#[derive(Clone)]
pub(super) struct Model {
    seen: State,
    durable: State,
    next: Inode,
}

const ROOT: Inode = 0;

impl Model {
    /// A model with the content of a directory, all durable.
    pub fn load(root: &Path) -> Self {
        let mut model = Model { seen: State::default(), durable: State::default(), next: 1 };
        model.seen.dirs.insert(ROOT, BTreeMap::new());
        model.load_dir(root, ROOT);
        model.durable = model.seen.clone();
        model
    }

    fn load_dir(&mut self, path: &Path, dir: Inode) {
        for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
            let inode = self.next;
            self.next += 1;
            let name = entry.file_name().into_string().unwrap();
            self.seen.dirs.get_mut(&dir).unwrap().insert(name, inode);
            if entry.path().is_dir() {
                self.seen.dirs.insert(inode, BTreeMap::new());
                self.load_dir(&entry.path(), inode);
            } else {
                self.seen.files.insert(inode, fs::read(entry.path()).unwrap());
            }
        }
    }

    /// Applies a recorded change. Paths are below `root`.
    pub fn apply(&mut self, root: &Path, step: &Step) {
        match step {
            Step::Create(path) => {
                let inode = self.link_new(root, path);
                self.seen.files.insert(inode, Vec::new());
            }
            Step::CreateDir(path) => {
                let inode = self.link_new(root, path);
                self.seen.dirs.insert(inode, BTreeMap::new());
            }
            Step::Write(path, offset, bytes) => {
                let content = self.content(root, path);
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(bytes);
            }
            Step::SetLen(path, bytes) => self.content(root, path).resize(*bytes as usize, 0),
            Step::Sync(path) => {
                let inode = self.inode(root, path);
                self.durable.files.insert(inode, self.seen.files[&inode].clone());
            }
            Step::SyncDir(path) => {
                let inode = self.inode(root, path);
                self.durable.dirs.insert(inode, self.seen.dirs[&inode].clone());
            }
            Step::Rename(from, to) => {
                let inode = self.unlink(root, from).unwrap();
                let (dir, name) = self.parent(root, to);
                self.seen.dirs.get_mut(&dir).unwrap().insert(name, inode);
            }
            Step::Remove(path) => _ = self.unlink(root, path),
        }
    }

    /// Writes the files that a crash leaves to a directory.
    pub fn store(&self, crash: Crash, root: &Path) {
        let dirs = if crash == Crash::All { &self.durable.dirs } else { &self.seen.dirs };
        let files = if crash == Crash::Kill { &self.seen.files } else { &self.durable.files };
        store_dir(dirs, files, ROOT, root);
    }

    fn link_new(&mut self, root: &Path, path: &Path) -> Inode {
        let (dir, name) = self.parent(root, path);
        self.next += 1;
        let before = self.seen.dirs.get_mut(&dir).unwrap().insert(name, self.next);
        assert!(before.is_none(), "{} was there", path.display());
        self.next
    }

    fn unlink(&mut self, root: &Path, path: &Path) -> Option<Inode> {
        let (dir, name) = self.parent(root, path);
        self.seen.dirs.get_mut(&dir).unwrap().remove(&name)
    }

    fn content(&mut self, root: &Path, path: &Path) -> &mut Vec<u8> {
        let inode = self.inode(root, path);
        self.seen.files.get_mut(&inode).unwrap()
    }

    fn parent(&self, root: &Path, path: &Path) -> (Inode, String) {
        let name = path.file_name().unwrap().to_str().unwrap().into();
        (self.inode(root, path.parent().unwrap()), name)
    }

    fn inode(&self, root: &Path, path: &Path) -> Inode {
        let below = path.strip_prefix(root).unwrap();
        below.components().fold(ROOT, |dir, component| match component {
            Component::Normal(name) => self.seen.dirs[&dir][name.to_str().unwrap()],
            _ => panic!("{}", path.display()),
        })
    }
}

fn store_dir(dirs: &HashMap<Inode, BTreeMap<String, Inode>>, files: &HashMap<Inode, Vec<u8>>, dir: Inode, path: &Path) {
    fs::create_dir_all(path).unwrap();
    let empty = BTreeMap::new();
    for (name, inode) in dirs.get(&dir).unwrap_or(&empty) {
        match files.get(inode) {
            Some(bytes) => fs::write(path.join(name), bytes).unwrap(),
            None if dirs.contains_key(inode) => store_dir(dirs, files, *inode, &path.join(name)),
            // A file that was never synced is empty.
            None => fs::write(path.join(name), []).unwrap(),
        }
    }
}
