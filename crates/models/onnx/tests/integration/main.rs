//! Models of torch and scikit-learn beside onnxruntime, the graphs that they become, and what is refused.

mod build;
mod evaluation;
mod external;
mod graphs;
mod hostile;
mod models;
mod outputs;
mod refusals;
