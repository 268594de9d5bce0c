//! What a geometry is made of: directed edges, once it has passed the door.
//!
//! Decides which geometries can be drawn at all, and takes those apart. It never follows a collection by recursion: input
//! nests as deep as whoever wrote it likes.

use geo_types::{Coord, Geometry, LineString, Polygon};

use crate::geometry::MAX_NESTING;

/// The farthest longitude, in degrees either way: five times round the world.
pub const MAX_LONGITUDE: f64 = 1800.0;

/// The farthest latitude, in degrees either way. Beyond 90 it is drawn at the pole, because databases hold such rows.
pub const MAX_LATITUDE: f64 = 180.0;

/// A geometry that cannot be drawn.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidGeometry {
    /// A coordinate is infinite or not a number.
    #[error("the coordinate [{0}, {1}] is not finite")]
    NotFinite(f64, f64),
    /// A coordinate is not on the globe, as when metres were taken for degrees.
    #[error(
        "the coordinate [{0}, {1}] is not in degrees: latitudes may reach to ±{MAX_LATITUDE}, longitudes to ±{MAX_LONGITUDE}"
    )]
    OutOfRange(f64, f64),
    /// Collections within collections, deeper than anything real.
    #[error("collections are nested deeper than {MAX_NESTING}")]
    Nested,
}

/// Checks a geometry at the door.
///
/// ```
/// use geo_types::{Geometry, point};
/// use tilewake_core::edges::check;
/// assert!(check(&Geometry::from(point!(x: 24.9, y: 60.2))).is_ok());
/// assert!(check(&Geometry::from(point!(x: 24.9, y: f64::NAN))).is_err());
/// ```
pub fn check(geometry: &Geometry<f64>) -> Result<(), InvalidGeometry> {
    Drawable::new(geometry).map(drop)
}

/// A geometry that passed the door: finite, on the globe, and not nested without end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawable<'a> {
    geometry: &'a Geometry<f64>,
    beyond_180: bool,
}

/// What a path is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PathKind {
    /// A point of its own.
    Point,
    /// A line, as it runs.
    Line,
    /// The outer ring of an area. It opens the area: its holes follow.
    Shell,
    /// A hole of the last shell.
    Hole,
}

impl<'a> Drawable<'a> {
    /// Checks the geometry.
    pub(crate) fn new(geometry: &'a Geometry<f64>) -> Result<Self, InvalidGeometry> {
        let mut beyond_180 = false;
        each_path(geometry, |_, coords| {
            beyond_180 |= coords.iter().any(|c| c.x.abs() > 180.0);
            coords.iter().try_for_each(check_coord)
        })?;
        Ok(Self { geometry, beyond_180 })
    }

    /// Whether it is made of geometries of different kinds.
    pub(crate) fn is_collection(self) -> bool {
        matches!(self.geometry, Geometry::GeometryCollection(_))
    }

    /// Whether a longitude is beyond ±180.
    pub(crate) fn is_beyond_180(self) -> bool {
        self.beyond_180
    }

    /// Shows every path that has coordinates; rings are closed.
    pub(crate) fn each_path(self, mut see: impl FnMut(PathKind, &[Coord<f64>])) {
        let walked = each_path(self.geometry, |kind, coords| {
            see(kind, coords);
            Ok(())
        });
        debug_assert!(walked.is_ok(), "the geometry was checked");
    }
}

fn check_coord(c: &Coord<f64>) -> Result<(), InvalidGeometry> {
    if !(c.x.is_finite() && c.y.is_finite()) {
        return Err(InvalidGeometry::NotFinite(c.x, c.y));
    }
    if c.y.abs() > MAX_LATITUDE || c.x.abs() > MAX_LONGITUDE {
        return Err(InvalidGeometry::OutOfRange(c.x, c.y));
    }
    Ok(())
}

type Seen = Result<(), InvalidGeometry>;

fn each_path(geometry: &Geometry<f64>, mut see: impl FnMut(PathKind, &[Coord<f64>]) -> Seen) -> Seen {
    let mut see = |kind, coords: &[Coord<f64>]| if coords.is_empty() { Ok(()) } else { see(kind, coords) };
    let mut pending = vec![(geometry, 0)];
    while let Some((geometry, depth)) = pending.pop() {
        match geometry {
            Geometry::GeometryCollection(_) if depth >= MAX_NESTING => return Err(InvalidGeometry::Nested),
            Geometry::GeometryCollection(parts) => pending.extend(parts.0.iter().rev().map(|part| (part, depth + 1))),
            simple => each_path_of_simple(simple, &mut see)?,
        }
    }
    Ok(())
}

fn each_path_of_simple(geometry: &Geometry<f64>, see: &mut impl FnMut(PathKind, &[Coord<f64>]) -> Seen) -> Seen {
    match geometry {
        Geometry::Point(p) => see(PathKind::Point, &[p.0]),
        Geometry::MultiPoint(points) => points.iter().try_for_each(|p| see(PathKind::Point, &[p.0])),
        Geometry::Line(line) => see(PathKind::Line, &[line.start, line.end]),
        Geometry::LineString(line) => see(PathKind::Line, &line.0),
        Geometry::MultiLineString(lines) => lines.iter().try_for_each(|line| see(PathKind::Line, &line.0)),
        Geometry::Polygon(polygon) => each_ring(polygon, see),
        Geometry::MultiPolygon(polygons) => polygons.iter().try_for_each(|polygon| each_ring(polygon, see)),
        Geometry::Rect(rect) => each_ring(&rect.to_polygon(), see),
        Geometry::Triangle(triangle) => each_ring(&triangle.to_polygon(), see),
        Geometry::GeometryCollection(_) => Ok(()),
    }
}

fn each_ring(polygon: &Polygon<f64>, see: &mut impl FnMut(PathKind, &[Coord<f64>]) -> Seen) -> Seen {
    see(PathKind::Shell, &polygon.exterior().0)?;
    let mut hole = |ring: &LineString<f64>| see(PathKind::Hole, &ring.0);
    polygon.interiors().iter().try_for_each(&mut hole)
}
