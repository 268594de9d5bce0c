//! The edges of shapes, ready to be covered: projected, signed, and repeated where the world repeats.
//!
//! Every area gets a winding weight of its own, a different one in every copy, so that a sum of winding numbers is zero
//! only where each of them is: an area is never cancelled by a hole that reaches out of another one. A hole is taken out
//! of its shell only if both surely run the way they seem to: on the grid that a tile is drawn on, a ring that crosses itself
//! can be flat, and is not drawn, or be turned inside out.

use geo_types::{Coord, Geometry};

use super::plane::{Edge, WORLD, project};
use crate::{
    edges::{Drawable, PathKind},
    feature::{LonLatBox, Shape},
    layer::Beyond180,
    ring::Measure,
};

/// The edges of everything that is to be covered.
#[derive(Debug)]
pub(crate) struct Outline {
    edges: Vec<Edge>,
    /// How far beyond ±180 degrees a tile of the other end of the world draws, in steps.
    margin: f64,
    beyond_180: Beyond180,
    n_areas: u64,
    /// The area whose shell was seen last; `None` if it is doubtful which way it runs.
    shell: Option<u64>,
    /// Vertices of the path at hand, in steps.
    path: Vec<(f64, f64)>,
}

/// How a longitude beyond ±180 is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// In a copy of the world.
    Shifted,
    /// In this world, each vertex by itself.
    Wrapped,
}

impl Outline {
    /// No edges yet. `margin` is how far beyond the world's edge a tile draws, in steps.
    pub(crate) fn new(beyond_180: Beyond180, margin: f64) -> Self {
        Self {
            edges: Vec::new(),
            margin,
            beyond_180,
            n_areas: 0,
            shell: None,
            path: Vec::new(),
        }
    }

    /// The edges.
    pub(crate) fn into_edges(self) -> Vec<Edge> {
        self.edges
    }

    /// Adds what a shape draws.
    pub(crate) fn add(&mut self, shape: &Shape) {
        match shape {
            Shape::Absent => {}
            Shape::Box(b) => self.add_box(b),
            Shape::Geometry(geometry) => self.add_geometry(geometry),
        }
    }

    /// A geometry that cannot be drawn may be anywhere.
    fn add_geometry(&mut self, geometry: &Geometry<f64>) {
        let Ok(drawable) = Drawable::new(geometry) else {
            return self.add_box(&LonLatBox::WORLD);
        };
        for reading in Reading::all(drawable.is_beyond_180(), self.beyond_180) {
            drawable.each_path(|kind, coords| self.add_path(kind, coords, *reading));
        }
    }

    fn add_path(&mut self, kind: PathKind, coords: &[Coord<f64>], reading: Reading) {
        self.path.clear();
        self.path
            .extend(coords.iter().map(|c| project(reading.longitude(c.x), c.y)));
        self.add_projected(kind);
    }

    fn add_projected(&mut self, kind: PathKind) {
        let area = self.area(kind);
        for copy in copies(self.path.iter().map(|vertex| vertex.0), self.margin) {
            let weight = match kind {
                PathKind::Point | PathKind::Line => 0,
                PathKind::Shell => turned(&self.path, weight(area, copy)),
                PathKind::Hole => turned(&self.path, weight(area, copy).wrapping_neg()),
            };
            push_edges(&mut self.edges, &self.path, weight, f64::from(copy) * WORLD);
        }
    }

    /// The area that the path at hand belongs to.
    fn area(&mut self, kind: PathKind) -> u64 {
        let is_settled = || Measure::of(&self.path).is_settled_around_tiles();
        match kind {
            PathKind::Point | PathKind::Line => 0,
            PathKind::Hole
                if let Some(area) = self.shell
                    && is_settled() =>
            {
                area
            }
            PathKind::Hole => self.next_area(),
            PathKind::Shell => {
                let is_settled = is_settled();
                let area = self.next_area();
                self.shell = is_settled.then_some(area);
                area
            }
        }
    }

    fn next_area(&mut self) -> u64 {
        self.n_areas += 1;
        self.n_areas
    }

    /// A box beyond ±180 covers all columns unless it is certain that geometries are drawn where they are: vertices that
    /// are wrapped alone can go anywhere.
    fn add_box(&mut self, b: &LonLatBox) {
        let is_beyond = b.west() < -180.0 || b.east() > 180.0;
        let goes_round = b.east() - b.west() >= 360.0 || (is_beyond && self.beyond_180 != Beyond180::Shifted);
        let (north, south) = (b.north().clamp(-90.0, 90.0), b.south().clamp(-90.0, 90.0));
        if goes_round {
            // The sides are out of reach, so all that is to be looked at are the two rows of the ends.
            let ((_, top), (_, bottom)) = (project(0.0, north), project(0.0, south));
            let (west, east) = (-4.0 * WORLD, 4.0 * WORLD);
            self.path = vec![(west, top), (east, top), (east, bottom), (west, bottom), (west, top)];
            let area = self.next_area();
            let weight = turned(&self.path, weight(area, 0));
            push_edges(&mut self.edges, &self.path, weight, 0.0);
        } else {
            let west = if is_beyond {
                Reading::Wrapped.longitude(b.west())
            } else {
                b.west()
            };
            let east = west + (b.east() - b.west());
            let corners = [
                (west, north),
                (east, north),
                (east, south),
                (west, south),
                (west, north),
            ];
            self.path = corners.map(|(lon, lat)| project(lon, lat)).into();
            self.add_projected(PathKind::Shell);
        }
    }
}

impl Reading {
    /// The readings of geometries some of which may be beyond ±180.
    pub(crate) fn all(is_beyond_180: bool, beyond_180: Beyond180) -> &'static [Self] {
        match beyond_180 {
            _ if !is_beyond_180 => &[Self::Shifted],
            Beyond180::Both => &[Self::Shifted, Self::Wrapped],
            Beyond180::Shifted => &[Self::Shifted],
            Beyond180::Wrapped => &[Self::Wrapped],
        }
    }

    /// Where a longitude is drawn.
    pub(crate) fn longitude(self, lon: f64) -> f64 {
        match self {
            Self::Wrapped if lon.abs() > 180.0 => (lon + 180.0).rem_euclid(360.0) - 180.0,
            Self::Wrapped | Self::Shifted => lon,
        }
    }
}

/// The edges of one closed chain, repeated where the world repeats. Every copy winds by itself.
pub(crate) fn with_copies(chain: &[Edge], margin: f64) -> Vec<Edge> {
    let mut edges = Vec::with_capacity(chain.len());
    for copy in copies(chain.iter().flat_map(|edge| [edge.ax, edge.bx]), margin) {
        let (shift, times) = (f64::from(copy) * WORLD, weight(1, copy));
        edges.extend(chain.iter().map(|edge| Edge {
            ax: edge.ax + shift,
            bx: edge.bx + shift,
            weight: edge.weight.wrapping_mul(times),
            ..*edge
        }));
    }
    edges
}

/// The winding weight of the n-th of several areas.
pub(crate) fn area_weight(n: u64) -> i64 {
    weight(n + 1, 0)
}

/// The whole worlds by which what lies at these columns must be shifted to the east to meet the world or its margin.
fn copies(columns: impl Iterator<Item = f64>, margin: f64) -> std::ops::RangeInclusive<i32> {
    let (west, east) = columns.fold((f64::INFINITY, f64::NEG_INFINITY), |(west, east), x| {
        (west.min(x), east.max(x))
    });
    let (first, last) = (
        ((-margin - east) / WORLD).ceil(),
        ((WORLD + margin - west) / WORLD).floor(),
    );
    #[expect(clippy::cast_possible_truncation, reason = "a few times round the world at most")]
    let range = first as i32..=last as i32;
    range
}

fn push_edges(edges: &mut Vec<Edge>, path: &[(f64, f64)], weight: i64, shift: f64) {
    let edge = |a: (f64, f64), b: (f64, f64)| Edge {
        ax: a.0 + shift,
        ay: a.1,
        bx: b.0 + shift,
        by: b.1,
        weight,
    };
    match path {
        [alone] => edges.push(edge(*alone, *alone)),
        _ => edges.extend(path.windows(2).map(|ends| edge(ends[0], ends[1]))),
    }
}

/// The weight of an area's copy: 1 if there is one area only; else odd and scattered over all 64 bits (by the mixer of
/// `SplitMix64`), so that small multiples of different weights do not sum up to zero.
fn weight(area: u64, copy: i32) -> i64 {
    if (area, copy) == (1, 0) {
        return 1;
    }
    let mut z = (area << 8 ^ u64::from(copy.cast_unsigned())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) | 1).cast_signed()
}

/// The weight with the sign of the way the ring runs, so that all shells wind one way and all holes the other.
fn turned(ring: &[(f64, f64)], weight: i64) -> i64 {
    if Measure::of(ring).doubled_area < 0.0 {
        weight.wrapping_neg()
    } else {
        weight
    }
}
