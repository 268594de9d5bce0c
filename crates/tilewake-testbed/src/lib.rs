//! Starts the services that tilewake needs in tests, benches and the demo, and stops them again.
