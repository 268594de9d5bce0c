//! Decides which map tiles an edit makes stale, and what must happen to them.
//!
//! Everything here takes values and answers with values: no clock, no I/O, no randomness, no async runtime. The crate
//! `tilewake` asks, and does what it is told. The invariants I1 to I5 that the docs refer to are in `ARCHITECTURE.md`.

pub mod backoff;
mod chain;
pub mod cover;
pub mod edges;
pub mod event;
pub mod feature;
pub mod fence;
pub mod geometry;
pub mod journal;
pub mod layer;
pub mod ledger;
pub mod mercator;
pub mod outbox;
pub mod picture;
mod ring;
pub mod route;
pub mod staleness;
pub mod tile;
pub mod tile_set;
pub mod timeline;
