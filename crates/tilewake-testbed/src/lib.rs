//! Starts the services that tilewake needs in tests, benches and the demo, and stops them again.

pub mod http;
pub mod postgres;
pub mod service_dir;
