//! The routing key: the H3 cell in which an edit happened.

use std::{fmt, str::FromStr};

use h3o::{CellIndex, LatLng, Resolution};
use serde::{Deserialize, Serialize};

/// The H3 cell at resolution 8 (about 0.7 km²) of the point at which a feature was when it was edited.
///
/// Fixed when the edit is written, because the point is: however late a relay reads, the key is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoutingKey(CellIndex);

/// A text that is not an H3 cell of the right resolution.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no routing key: it needs an H3 cell of resolution 8")]
pub struct InvalidRoutingKey(String);

impl RoutingKey {
    /// The cell of a point in degrees; `None` for a point that is not on the globe.
    ///
    /// ```
    /// use tilewake_core::route::RoutingKey;
    /// assert_eq!(RoutingKey::of_point(24.94, 60.17).unwrap().to_string(), "881126d331fffff");
    /// assert!(RoutingKey::of_point(f64::NAN, 0.0).is_none());
    /// ```
    #[must_use]
    pub fn of_point(longitude: f64, latitude: f64) -> Option<Self> {
        let point = LatLng::new(latitude, longitude)
            .ok()
            .filter(|_| latitude.abs() <= 90.0)?;
        Some(Self(point.to_cell(Resolution::Eight)))
    }

    /// The cell's index.
    #[must_use]
    pub fn cell(self) -> u64 {
        self.0.into()
    }
}

impl fmt::Display for RoutingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RoutingKey {
    type Err = InvalidRoutingKey;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse::<CellIndex>()
            .ok()
            .filter(|cell| cell.resolution() == Resolution::Eight)
            .map(Self)
            .ok_or_else(|| InvalidRoutingKey(s.to_owned()))
    }
}

impl TryFrom<String> for RoutingKey {
    type Error = InvalidRoutingKey;
    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse()
    }
}

impl From<RoutingKey> for String {
    fn from(key: RoutingKey) -> Self {
        key.to_string()
    }
}
