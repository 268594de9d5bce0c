//! Where the world's features lie: four places, each the middle of one tile of zoom 1.
//!
//! What is drawn and what a box meets is worked out here on four bits, by another idea than the core's geometry.

use std::{fmt, sync::Arc};

use geo_types::{Geometry, MultiPoint, Point};
use tilewake_core::{
    feature::{LonLatBox, Shape},
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    tile::TileId,
    tile_set::TileSet,
};

/// How many tiles there are at zooms 0 and 1. Tile 0 is the world's; tile `n` is that of place `n - 1`.
pub const N_TILES: u8 = 5;

/// Longitude and latitude of the places, in the order of their tiles' PMTiles ids.
const LON_LAT: [(f64, f64); 4] = [(-90.0, 45.0), (-90.0, -45.0), (90.0, -45.0), (90.0, 45.0)];

/// Some of the four places, as bits. None at all is a geometry that is NULL.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Places(pub u8);

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["nw", "sw", "se", "ne"];
        let here: Vec<_> = (0..4).filter(|i| self.holds(*i)).map(|i| names[i]).collect();
        write!(
            f,
            "{}",
            if here.is_empty() {
                "null".to_owned()
            } else {
                here.join("+")
            }
        )
    }
}

impl Places {
    fn holds(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }

    fn points(self) -> impl Iterator<Item = (f64, f64)> {
        (0..4).filter(move |i| self.holds(*i)).map(|i| LON_LAT[i])
    }

    /// The geometry: a point for each place.
    pub fn geometry(self) -> Option<Arc<Geometry<f64>>> {
        let points: Vec<Point<f64>> = self.points().map(Point::from).collect();
        (!points.is_empty()).then(|| Arc::new(Geometry::from(MultiPoint(points))))
    }

    /// The places of a geometry of this world.
    pub fn of(geometry: &Geometry<f64>) -> Self {
        let Geometry::MultiPoint(points) = geometry else {
            unreachable!("{geometry:?} is not of this world")
        };
        let is_here = |(lon, lat)| points.iter().any(|point| (point.x(), point.y()) == (lon, lat));
        Self((0..4).filter(|i| is_here(LON_LAT[*i])).map(|i| 1 << i).sum())
    }

    /// The box of the geometry.
    pub fn bounds(self) -> Option<LonLatBox> {
        let boxes = self
            .points()
            .map(|(lon, lat)| LonLatBox::new([lon, lat, lon, lat]).unwrap());
        boxes.reduce(|a, b| a.union(&b))
    }

    /// All the places that the box of these meets.
    pub fn boxed(self) -> Self {
        let (west, east) = (self.0 & 0b0011, self.0 & 0b1100);
        let (north, south) = (self.0 & 0b1001, self.0 & 0b0110);
        let columns = if west > 0 { 0b0011 } else { 0 } | if east > 0 { 0b1100 } else { 0 };
        let rows = if north > 0 { 0b1001 } else { 0 } | if south > 0 { 0b0110 } else { 0 };
        Self(columns & rows)
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether tile `n` draws any of these.
    pub fn meet(self, tile: u8) -> bool {
        if tile == 0 {
            self.0 > 0
        } else {
            self.holds(usize::from(tile) - 1)
        }
    }

    /// Whether every tile of the set draws one of these.
    pub fn cover(self, tiles: &TileSet) -> bool {
        (0..N_TILES).all(|tile| self.meet(tile) || !tiles.contains(tile_id(tile)))
    }

    /// Whether the ledger's shape is this one: the geometry itself, or its box.
    pub fn agrees_with(self, shape: &Shape) -> bool {
        match shape {
            Shape::Absent => self.0 == 0,
            Shape::Box(b) => self.bounds() == Some(*b),
            Shape::Geometry(geometry) => self.geometry().as_ref() == Some(geometry),
        }
    }
}

/// The address of tile `n`.
pub fn tile_id(tile: u8) -> TileId {
    TileId::from_pmtiles_id(u64::from(tile)).unwrap()
}

/// The settings of a layer drawn at zoom 1, or at both zooms.
pub fn settings(zooms: (u8, u8)) -> LayerSettings {
    LayerSettings {
        zooms: Zooms::new(zooms.0, zooms.1).unwrap(),
        buffer: Buffer::DEFAULT,
        policy: Policy::Footprint,
        beyond_180: Beyond180::Both,
    }
}
