//! Approximate arithmetic on encrypted vectors: encodings, evaluator, linear transforms, polynomials. Knows nothing of applications.
