//! The command line, as the built binary: what it says to bad input, what it shows, and what it serves besides tiles.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::needless_raw_string_hashes, reason = "the texts are written by expect-test")]

mod program;

#[path = "cli/mistakes.rs"]
mod mistakes;
#[path = "cli/said.rs"]
mod said;
#[path = "cli/served.rs"]
mod served;
#[path = "cli/shown.rs"]
mod shown;
#[path = "cli/tables.rs"]
mod tables;
