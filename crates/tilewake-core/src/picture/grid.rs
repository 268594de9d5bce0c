//! The zoom's grid of 4096 units a tile, and the part of it that one tile draws.

use geo_types::Coord;

use crate::{
    edges::MAX_LONGITUDE,
    feature::LonLatBox,
    layer::Buffer,
    mercator::{project, unproject},
    tile::TileId,
};

/// How many units of the grid a tile is wide.
pub const EXTENT: u32 = 4096;

/// Coordinates stop here, so that no product of two differences overflows: 64 worlds at the deepest zoom, where the
/// poles are not six worlds away.
const LIMIT: f64 = (1u64 << 46) as f64;

/// The farthest longitude is so many worlds away, one more for the buffer.
#[expect(clippy::cast_possible_truncation, reason = "a few worlds")]
const MAX_COPIES: i64 = (MAX_LONGITUDE / 360.0) as i64 + 1;

/// A point of the zoom's grid, counted from the tile's north-western corner: `x` to the east, `y` to the south.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GridPoint {
    /// Units to the east.
    pub x: i64,
    /// Units to the south.
    pub y: i64,
}

impl GridPoint {
    pub(super) fn moved_east(self, units: i64) -> Self {
        Self {
            x: self.x + units,
            ..self
        }
    }

    /// The cross product of the ways from here to `a` and to `b`: positive if `b` lies to the side of `a` where
    /// shells have their inside.
    pub(super) fn cross(self, a: Self, b: Self) -> i128 {
        let wide = |n: i64, m: i64| i128::from(n) * i128::from(m);
        wide(a.x - self.x, b.y - self.y) - wide(a.y - self.y, b.x - self.x)
    }
}

/// A tile with its buffer: the closed square of the grid that it draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    scale: f64,
    /// The width of the world.
    world: i64,
    /// The tile's corner on the zoom's grid.
    origin: GridPoint,
    /// Both coordinates of the square's north-western corner.
    pub(super) min: i64,
    /// Both coordinates of its south-eastern corner.
    pub(super) max: i64,
}

impl Frame {
    pub(super) fn new(tile: TileId, buffer: Buffer) -> Self {
        let extent = i64::from(EXTENT);
        let world = extent << tile.z();
        // Rounded down: a vertex snapped into the square came from no further than half a unit outside the exact box.
        #[expect(clippy::cast_possible_truncation, reason = "a buffer is at most one tile")]
        let margin = (buffer.fraction() * f64::from(EXTENT)) as i64;
        Self {
            scale: world as f64,
            world,
            origin: GridPoint {
                x: i64::from(tile.x()) * extent,
                y: i64::from(tile.y()) * extent,
            },
            min: -margin,
            max: extent + margin,
        }
    }

    /// The nearest point of the grid to a finite longitude and latitude.
    pub(super) fn snap(&self, lonlat: Coord<f64>) -> GridPoint {
        let (u, v) = project(lonlat.x, lonlat.y);
        GridPoint {
            x: self.units(u) - self.origin.x,
            y: self.units(v) - self.origin.y,
        }
    }

    fn units(&self, unit: f64) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "an integer within the limit")]
        let snapped = (unit * self.scale).round_ties_even().clamp(-LIMIT, LIMIT) as i64;
        snapped
    }

    /// The square in degrees, one unit larger on every side.
    pub(super) fn reach(&self) -> LonLatBox {
        let unit = |origin: i64, at: i64| (origin + at) as f64 / self.scale;
        let (west, north) = unproject(unit(self.origin.x, self.min - 1), unit(self.origin.y, self.min - 1));
        let (east, south) = unproject(unit(self.origin.x, self.max + 1), unit(self.origin.y, self.max + 1));
        // Never, because a world's worth of buffer does not reach the poles.
        LonLatBox::new([west, south, east, north]).unwrap_or(LonLatBox::WORLD)
    }

    /// How far to the east the copies of a shape between `a` and `b` lie that can show in this square. The world repeats:
    /// for longitudes beyond ±180, and for the buffer of the first and the last column.
    pub(super) fn copies(self, a: GridPoint, b: GridPoint) -> impl Iterator<Item = i64> {
        let rows = a.y.min(b.y)..=a.y.max(b.y);
        let columns = a.x.min(b.x)..=a.x.max(b.x);
        (-MAX_COPIES..=MAX_COPIES)
            .map(move |n| n * self.world)
            .filter(move |east| {
                let meets = |low: i64, high: i64| low <= self.max && high >= self.min;
                meets(columns.start() + east, columns.end() + east) && meets(*rows.start(), *rows.end())
            })
    }

    pub(super) fn holds(&self, p: GridPoint) -> bool {
        self.clamp(p) == p
    }

    /// The nearest point of the square.
    pub(super) fn clamp(&self, p: GridPoint) -> GridPoint {
        GridPoint {
            x: p.x.clamp(self.min, self.max),
            y: p.y.clamp(self.min, self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(z: u8, x: u32, y: u32) -> Frame {
        Frame::new(TileId::new(z, x, y).unwrap(), Buffer::DEFAULT)
    }

    fn snapped(frame: &Frame, x: f64, y: f64) -> (i64, i64) {
        let p = frame.snap(Coord { x, y });
        (p.x, p.y)
    }

    #[test]
    fn the_middle_of_the_world_is_a_corner_of_four_tiles() {
        assert_eq!(snapped(&frame(0, 0, 0), 0.0, 0.0), (2048, 2048));
        assert_eq!(snapped(&frame(1, 0, 0), 0.0, 0.0), (4096, 4096));
        assert_eq!(snapped(&frame(1, 1, 1), 0.0, 0.0), (0, 0));
    }

    #[test]
    fn halves_are_rounded_to_even_so_that_neighbours_agree() {
        let unit = 360.0 / 4096.0;
        assert_eq!(snapped(&frame(0, 0, 0), -180.0 + 0.5 * unit, 0.0).0, 0);
        assert_eq!(snapped(&frame(0, 0, 0), -180.0 + 1.5 * unit, 0.0).0, 2);
    }

    #[test]
    fn poles_and_absurd_coordinates_stay_within_the_limit() {
        let deepest = frame(28, 0, 0);
        for y in [-90.0, 90.0, f64::MAX, f64::MIN] {
            assert!(snapped(&deepest, 0.0, y).1.abs() < 1 << 43);
        }
        assert_eq!(snapped(&deepest, f64::MAX, 0.0).0, 1 << 46);
        assert_eq!(snapped(&deepest, f64::MIN, 0.0).0, -1 << 46);
    }
}
