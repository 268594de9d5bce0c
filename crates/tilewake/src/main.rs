//! The `tilewake` command.

fn main() {}
