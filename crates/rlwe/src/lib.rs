//! Secrets, ciphertexts, key-switching and automorphisms over residue rings. Knows nothing of encodings.
