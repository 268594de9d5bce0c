//! When to try again.

use std::time::Duration;

/// The longest wait before the first retry.
pub const FIRST: Duration = Duration::from_secs(1);
/// The longest wait before any retry.
pub const LONGEST: Duration = Duration::from_mins(5);

/// How long to wait after `attempts` failures in a row: at most [`FIRST`], doubling to [`LONGEST`], with full jitter.
///
/// `jitter` is uniform in `0.0..1.0` and decides where between nothing and the bound the wait lies, so that rows which
/// failed together do not come back together (Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).
///
/// ```
/// use std::time::Duration;
/// use tilewake_core::backoff::delay;
/// assert_eq!(delay(1, 0.5), Duration::from_millis(500));
/// assert_eq!(delay(4, 0.5), Duration::from_secs(4));
/// assert_eq!(delay(100, 0.5), Duration::from_secs(150));
/// ```
#[must_use]
pub fn delay(attempts: u32, jitter: f64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    let bound = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    bound.mul_f64(jitter.clamp(0.0, 1.0))
}

/// How long until a row has either been published or moved to the dead letters, when every attempt fails and every wait
/// is the longest: a version that stays away for longer is not on its way any more.
#[must_use]
pub fn schedule(max_attempts: u32) -> Duration {
    (1..=max_attempts).map(|attempts| delay(attempts, 1.0)).sum()
}
