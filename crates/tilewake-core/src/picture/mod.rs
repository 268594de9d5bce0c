//! What the built-in renderer draws in a tile.
//!
//! A picture is a pure function of the features that meet the tile's buffered square, and of nothing outside it but
//! how often an area's outline winds around it. That is what makes the policies `change` and `pixel` exact for it.
//! Vertices are snapped to the zoom's grid before anything else happens, so neighbouring tiles agree on them; nothing is
//! simplified, and no vertex is dropped from what is left to draw.
//!
//! It never decides which features to read, and never fails: a feature whose geometry does not pass the door
//! ([`edges::check`](crate::edges::check)) is left out, and whoever read it reports it.

mod area;
mod clip;
mod encode;
mod grid;
mod line;
#[cfg(test)]
mod tests;
mod trace;

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
    sync::Arc,
};

use geo_types::{Coord, Geometry};

use self::{
    area::{Outline, Role},
    grid::Frame,
};
pub use self::{
    area::{Polygon, Ring},
    encode::ID_ATTRIBUTE,
    grid::{EXTENT, GridPoint},
    line::Path,
};
use crate::{
    edges::{Drawable, PathKind},
    feature::{FeatureId, LonLatBox},
    layer::Buffer,
    tile::TileId,
};

/// A feature as the renderer read it.
#[derive(Clone, Debug)]
pub struct FeatureToDraw {
    /// Its key.
    pub id: FeatureId,
    /// Its shape, in EPSG:4326.
    pub geometry: Arc<Geometry<f64>>,
    /// What the tile tells about it, in the order of the layer's columns. NULLs are left out.
    pub attributes: Vec<(Arc<str>, Value)>,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum Value {
    /// A text.
    Text(Arc<str>),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// True or false.
    Bool(bool),
}

/// What one tile shows of one layer. Two pictures are equal when they draw the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    features: Vec<DrawnFeature>,
}

/// What one tile shows of one feature: at least one area, line or point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrawnFeature {
    /// Its key.
    pub id: FeatureId,
    /// What the tile tells about it; every name once.
    pub attributes: Vec<(Arc<str>, Value)>,
    /// Its areas, sorted.
    pub areas: Vec<Polygon>,
    /// Its lines, sorted.
    pub lines: Vec<Path>,
    /// Its points, sorted; each once.
    pub points: Vec<GridPoint>,
}

/// Draws features into a tile, in any order: the picture has them in the order of their ids.
///
/// ```
/// use tilewake_core::{
///     feature::FeatureId,
///     layer::Buffer,
///     picture::{FeatureToDraw, GridPoint, draw},
///     tile::TileId,
/// };
/// let cairn = FeatureToDraw {
///     id: FeatureId::new("7"),
///     geometry: std::sync::Arc::new(geo_types::Point::new(0.0, 0.0).into()),
///     attributes: vec![],
/// };
/// let world = TileId::new(0, 0, 0).unwrap();
/// let picture = draw(world, Buffer::DEFAULT, [cairn]);
/// assert_eq!(picture.features()[0].points, [GridPoint { x: 2048, y: 2048 }]);
/// ```
#[must_use]
pub fn draw(tile: TileId, buffer: Buffer, features: impl IntoIterator<Item = FeatureToDraw>) -> Picture {
    let mut drawing = Drawing::new(tile, buffer);
    for feature in features {
        drawing.add(feature);
    }
    drawing.finish()
}

/// A picture in the making, for features that come one at a time: of each only what is drawn is kept.
#[derive(Debug)]
pub struct Drawing {
    frame: Frame,
    features: Vec<DrawnFeature>,
}

impl Drawing {
    /// Nothing drawn yet.
    #[must_use]
    pub fn new(tile: TileId, buffer: Buffer) -> Self {
        Self {
            frame: Frame::new(tile, buffer),
            features: Vec::new(),
        }
    }

    /// Draws a feature.
    pub fn add(&mut self, feature: FeatureToDraw) {
        self.features.extend(draw_feature(self.frame, feature));
    }

    /// The picture.
    #[must_use]
    pub fn finish(mut self) -> Picture {
        self.features
            .sort_unstable_by(|a, b| in_order(&a.id, &b.id).then_with(|| a.cmp(b)));
        Picture {
            features: self.features,
        }
    }
}

/// The box in degrees that a geometry, or a copy of it shifted by whole worlds, must meet to be drawn. It holds a little
/// more than what is drawn, for the rounding to the grid and in what one computes with it.
#[must_use]
pub fn reach(tile: TileId, buffer: Buffer) -> LonLatBox {
    Frame::new(tile, buffer).reach()
}

impl Picture {
    /// What is drawn, in the order of ids: numbers by value, then texts.
    #[must_use]
    pub fn features(&self) -> &[DrawnFeature] {
        &self.features
    }

    /// Whether the tile shows nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }
}

fn draw_feature(frame: Frame, feature: FeatureToDraw) -> Option<DrawnFeature> {
    let geometry = Drawable::new(&feature.geometry).ok()?;
    let mut canvas = Canvas::new(frame);
    geometry.each_path(|kind, coords| canvas.add(kind, coords));
    canvas.finish(feature)
}

/// Numbers first, by value, so that features do not change places when they reach the next power of ten.
fn in_order(a: &FeatureId, b: &FeatureId) -> Ordering {
    let key = |id: &FeatureId| number(id).map_or((true, 0), |n| (false, n));
    key(a).cmp(&key(b))
}

/// The id as a number, if it is one in its canonical decimal form.
fn number(id: &FeatureId) -> Option<u64> {
    let text = id.as_str();
    let canonical = text == "0" || text.starts_with(|c: char| ('1'..='9').contains(&c));
    if canonical { text.parse().ok() } else { None }
}

/// What a feature has drawn so far.
struct Canvas {
    frame: Frame,
    outline: Outline,
    paths: Vec<Path>,
    points: Vec<GridPoint>,
    /// Kept from part to part, for its memory.
    snapped: Vec<GridPoint>,
}

impl Canvas {
    fn new(frame: Frame) -> Self {
        Self {
            frame,
            outline: Outline::new(frame),
            paths: Vec::new(),
            points: Vec::new(),
            snapped: Vec::new(),
        }
    }

    fn add(&mut self, kind: PathKind, coords: &[Coord<f64>]) {
        let Some((low, high)) = bounds(coords) else { return };
        let (low, high) = (self.frame.snap(low), self.frame.snap(high));
        for east in self.frame.copies(low, high) {
            self.snap(coords, east);
            match kind {
                PathKind::Point => self.points.extend_from_slice(&self.snapped),
                PathKind::Line => line::cut(&self.frame, &self.snapped, &mut self.paths),
                PathKind::Shell => self.outline.add(&self.snapped, Role::Shell),
                PathKind::Hole => self.outline.add(&self.snapped, Role::Hole),
            }
        }
    }

    fn snap(&mut self, coords: &[Coord<f64>], east: i64) {
        self.snapped.clear();
        self.snapped
            .extend(coords.iter().map(|c| self.frame.snap(*c).moved_east(east)));
        self.snapped.dedup();
    }

    fn finish(mut self, feature: FeatureToDraw) -> Option<DrawnFeature> {
        self.paths.sort_unstable();
        self.points.sort_unstable();
        self.points.dedup();
        let drawn = DrawnFeature {
            id: feature.id,
            attributes: once_each(feature.attributes),
            areas: self.outline.polygons(),
            lines: self.paths,
            points: self.points,
        };
        let shows = !(drawn.areas.is_empty() && drawn.lines.is_empty() && drawn.points.is_empty());
        shows.then_some(drawn)
    }
}

/// Two opposite corners of the box around some coordinates.
fn bounds(coords: &[Coord<f64>]) -> Option<(Coord<f64>, Coord<f64>)> {
    let first = *coords.first()?;
    let grow = |(low, high): (Coord<f64>, Coord<f64>), c: &Coord<f64>| {
        let low = Coord {
            x: low.x.min(c.x),
            y: low.y.min(c.y),
        };
        let high = Coord {
            x: high.x.max(c.x),
            y: high.y.max(c.y),
        };
        (low, high)
    };
    Some(coords.iter().fold((first, first), grow))
}

fn once_each(mut attributes: Vec<(Arc<str>, Value)>) -> Vec<(Arc<str>, Value)> {
    let mut n = 0;
    while n < attributes.len() {
        let (seen, rest) = attributes.split_at(n);
        if seen.iter().any(|(name, _)| *name == rest[0].0) {
            attributes.remove(n);
        } else {
            n += 1;
        }
    }
    attributes
}

impl Value {
    /// What tells two values apart: of floats, their bits.
    fn key(&self) -> (u8, &str, i64, bool) {
        match self {
            Self::Text(text) => (0, text, 0, false),
            Self::Int(n) => (1, "", *n, false),
            Self::Float(f) => (2, "", f.to_bits().cast_signed(), false),
            Self::Bool(b) => (3, "", 0, *b),
        }
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
