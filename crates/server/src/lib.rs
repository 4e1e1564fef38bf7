//! The service: keys, requests, limits and metrics over HTTP.
