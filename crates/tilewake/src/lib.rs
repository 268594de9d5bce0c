//! tilewake moves edits of map features to the tile caches that drew them.

pub mod postgres;

/// A number in `0.0..1.0`, drawn anew at every call, that keeps what failed together from coming back together.
pub(crate) fn jitter() -> f64 {
    fastrand::f64()
}
