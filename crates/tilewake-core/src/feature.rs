//! A feature, its versions, and what is known of its shape.

use std::{fmt, sync::Arc};

use geo_types::Geometry;
use serde::{Deserialize, Serialize};

use crate::layer::LayerName;

/// The key of a feature in its layer's table, as text: any text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeatureId(Arc<str>);

impl FeatureId {
    /// Wraps the text of a key.
    #[must_use]
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FeatureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A feature: a layer and the key of a row in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeatureKey {
    /// The layer.
    pub layer: LayerName,
    /// The key of the row.
    pub id: FeatureId,
}

/// A layer's epoch: raised whenever its edits cannot be told one by one any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub i64);

/// A feature's version: 0 before it ever existed, and one more with every edit, also across delete and re-insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub i64);

impl Version {
    /// Before the feature existed.
    pub const ZERO: Self = Self(0);

    /// The version that the next edit gets.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The bounding box of a geometry in EPSG:4326, in degrees, rounded outwards.
///
/// Invariant: finite, `west <= east` and `south <= north`. Longitudes may lie beyond ±180 as the data has them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "[f64; 4]", into = "[f64; 4]")]
pub struct LonLatBox {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

/// Four numbers that are no box.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no box: it needs finite west <= east and south <= north")]
pub struct InvalidBox([f64; 4]);

impl LonLatBox {
    /// The whole world: the box of what has no better one.
    pub const WORLD: Self = Self {
        west: -180.0,
        south: -90.0,
        east: 180.0,
        north: 90.0,
    };

    /// Checks and wraps `[west, south, east, north]`, the order of GeoJSON's `bbox`.
    pub fn new(corners: [f64; 4]) -> Result<Self, InvalidBox> {
        let [west, south, east, north] = corners;
        let fits = corners.iter().all(|c| c.is_finite()) && west <= east && south <= north;
        if fits {
            Ok(Self {
                west,
                south,
                east,
                north,
            })
        } else {
            Err(InvalidBox(corners))
        }
    }

    /// The western edge, in degrees.
    #[must_use]
    pub fn west(&self) -> f64 {
        self.west
    }

    /// The southern edge, in degrees.
    #[must_use]
    pub fn south(&self) -> f64 {
        self.south
    }

    /// The eastern edge, in degrees.
    #[must_use]
    pub fn east(&self) -> f64 {
        self.east
    }

    /// The northern edge, in degrees.
    #[must_use]
    pub fn north(&self) -> f64 {
        self.north
    }

    /// The smallest box that holds both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            west: self.west.min(other.west),
            south: self.south.min(other.south),
            east: self.east.max(other.east),
            north: self.north.max(other.north),
        }
    }
}

impl TryFrom<[f64; 4]> for LonLatBox {
    type Error = InvalidBox;
    fn try_from(corners: [f64; 4]) -> Result<Self, Self::Error> {
        Self::new(corners)
    }
}

impl From<LonLatBox> for [f64; 4] {
    fn from(b: LonLatBox) -> Self {
        [b.west, b.south, b.east, b.north]
    }
}

/// What is known of where a feature is drawn, in EPSG:4326.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Nowhere: there is no such feature, or its geometry is NULL or empty.
    Absent,
    /// Somewhere in this box.
    Box(LonLatBox),
    /// Exactly here.
    Geometry(Arc<Geometry<f64>>),
}

impl Shape {
    /// The shape of a box that may be missing.
    #[must_use]
    pub fn of_box(b: Option<LonLatBox>) -> Self {
        b.map_or(Self::Absent, Self::Box)
    }

    /// Whether the feature draws nothing.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether it is known exactly what the feature draws.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !matches!(self, Self::Box(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_finite_and_the_right_way_round() {
        assert!(LonLatBox::new([179.0, -1.0, 181.0, 1.0]).is_ok());
        assert!(LonLatBox::new([1.0, 0.0, -1.0, 0.0]).is_err());
        assert!(LonLatBox::new([f64::NAN, 0.0, 1.0, 1.0]).is_err());
    }
}
