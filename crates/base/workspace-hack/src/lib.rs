//! No code. Cargo builds a dependency with the features that the packages of one command need, so building
//! `unspoken-cli` alone, and then the workspace with its tests, would compile most packages twice. This package depends
//! on the packages that are concerned, with the features of the workspace, and a package that is built alone depends on
//! this one with its feature `like-the-workspace`. The name is that of `cargo hakari`, which does the same.
