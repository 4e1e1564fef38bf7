//! Private embedding lookup: encrypted indices in, encrypted table columns out.
