//! Tiles: drawn from PostGIS, kept in a fenced cache.

pub mod cache;
pub mod render;
