//! The address of a tile, and its number in the PMTiles order.

use std::fmt;

/// The deepest zoom: what PMTiles ids and the grid arithmetic hold with room to spare.
pub const MAX_ZOOM: u8 = 28;

/// The address of one Web Mercator tile: `x` grows to the east, `y` to the south (the XYZ scheme).
///
/// Invariant: `z <= MAX_ZOOM` and `x, y < 2^z`, so whoever holds a `TileId` never checks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileId {
    z: u8,
    x: u32,
    y: u32,
}

impl TileId {
    /// `None` for a tile that cannot exist.
    ///
    /// ```
    /// use tilewake_core::tile::TileId;
    /// assert!(TileId::new(1, 1, 0).is_some());
    /// assert!(TileId::new(1, 2, 0).is_none());
    /// ```
    #[must_use]
    pub fn new(z: u8, x: u32, y: u32) -> Option<Self> {
        (z <= MAX_ZOOM && x < 1 << z && y < 1 << z).then_some(Self { z, x, y })
    }

    /// The zoom.
    #[must_use]
    pub fn z(self) -> u8 {
        self.z
    }

    /// The column, from the west.
    #[must_use]
    pub fn x(self) -> u32 {
        self.x
    }

    /// The row, from the north.
    #[must_use]
    pub fn y(self) -> u32 {
        self.y
    }

    /// The tile's number in PMTiles: zooms one after another, in each the order of a Hilbert curve
    /// (PMTiles specification version 3, "Tile ID").
    ///
    /// ```
    /// use tilewake_core::tile::TileId;
    /// assert_eq!(TileId::new(12, 3423, 1763).unwrap().pmtiles_id(), 19_078_479);
    /// ```
    #[must_use]
    pub fn pmtiles_id(self) -> u64 {
        let (mut x, mut y, mut d) = (self.x, self.y, 0u64);
        for level in (0..self.z).rev() {
            let s = 1u32 << level;
            let (rx, ry) = (u32::from(x & s != 0), u32::from(y & s != 0));
            d = d << 2 | u64::from((3 * rx) ^ ry);
            (x, y) = (x & (s - 1), y & (s - 1));
            if ry == 0 {
                if rx == 1 {
                    (x, y) = (s - 1 - x, s - 1 - y);
                }
                (x, y) = (y, x);
            }
        }
        first_id(self.z) + d
    }

    /// The tile that has this number; `None` beyond [`MAX_ZOOM`].
    #[must_use]
    pub fn from_pmtiles_id(id: u64) -> Option<Self> {
        let z = zoom_of(id)?;
        let d = id - first_id(z);
        let (mut x, mut y) = (0u32, 0u32);
        for level in 0..z {
            let s = 1u32 << level;
            let quadrant = (d >> (2 * level)) & 3;
            let rx = u32::from(quadrant >= 2);
            let ry = u32::from(quadrant == 1 || quadrant == 2);
            if ry == 0 {
                if rx == 1 {
                    (x, y) = (s - 1 - x, s - 1 - y);
                }
                (x, y) = (y, x);
            }
            x += s * rx;
            y += s * ry;
        }
        Some(Self { z, x, y })
    }

    /// The tile that holds this one, one zoom up; `None` for the tile of zoom 0.
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        (self.z > 0).then(|| Self {
            z: self.z - 1,
            x: self.x >> 1,
            y: self.y >> 1,
        })
    }
}

impl fmt::Display for TileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.z, self.x, self.y)
    }
}

/// How the Hilbert curve runs through a quadtree cell: in which order through its children, and how through each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Curve {
    /// Whether rows and columns are exchanged.
    swapped: bool,
    /// Whether both are counted from the other end.
    flipped: bool,
}

/// A child of a quadtree cell: 0 or 1 from the west, and from the north.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quadrant {
    pub(crate) column: u8,
    pub(crate) row: u8,
}

impl Curve {
    /// The children in the order of the curve, each with how the curve runs through it. It starts with the default at
    /// the tile of zoom 0.
    pub(crate) fn children(self) -> [(Quadrant, Self); 4] {
        [(false, false), (false, true), (true, true), (true, false)].map(|(x, y)| {
            let (column, row) = if self.swapped { (y, x) } else { (x, y) };
            let quadrant = Quadrant {
                column: u8::from(column ^ self.flipped),
                row: u8::from(row ^ self.flipped),
            };
            let within = Self {
                swapped: self.swapped ^ !y,
                flipped: self.flipped ^ (x && !y),
            };
            (quadrant, within)
        })
    }
}

/// The number of the first tile of a zoom: how many tiles all shallower zooms have. `zoom <= MAX_ZOOM + 1`.
#[must_use]
pub fn first_id(zoom: u8) -> u64 {
    debug_assert!(zoom <= MAX_ZOOM + 1);
    ((1u64 << (2 * zoom)) - 1) / 3
}

/// The zoom of a tile number; `None` beyond [`MAX_ZOOM`].
#[must_use]
pub fn zoom_of(id: u64) -> Option<u8> {
    // first_id(z) <= id  <=>  4^z <= 3 id + 1
    let z = u8::try_from((id.checked_mul(3)?.checked_add(1)?).ilog2() / 2).ok()?;
    (z <= MAX_ZOOM).then_some(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_with_the_examples_of_the_specification() {
        for ((z, x, y), id) in [
            ((0, 0, 0), 0),
            ((1, 0, 0), 1),
            ((1, 0, 1), 2),
            ((1, 1, 1), 3),
            ((1, 1, 0), 4),
            ((2, 0, 0), 5),
        ] {
            assert_eq!(TileId::new(z, x, y).unwrap().pmtiles_id(), id);
        }
    }

    #[test]
    fn a_number_leads_back_to_its_tile() {
        for id in (0..200_000).chain(first_id(MAX_ZOOM) - 5..first_id(MAX_ZOOM) + 5) {
            assert_eq!(TileId::from_pmtiles_id(id).unwrap().pmtiles_id(), id);
        }
        assert_eq!(TileId::from_pmtiles_id(first_id(MAX_ZOOM + 1)), None);
        assert_eq!(TileId::from_pmtiles_id(u64::MAX), None);
    }

    #[test]
    fn the_curve_runs_through_children_in_the_order_of_their_numbers() {
        let mut cells = vec![(TileId::new(0, 0, 0).unwrap(), Curve::default())];
        for zoom in 1..8 {
            let below = |(tile, curve): &(TileId, Curve)| {
                let (x, y) = (tile.x * 2, tile.y * 2);
                curve.children().map(|(at, within)| {
                    let child = TileId::new(zoom, x + u32::from(at.column), y + u32::from(at.row)).unwrap();
                    (child, within)
                })
            };
            cells = cells.iter().flat_map(below).collect();
            let numbers = cells.iter().map(|(tile, _)| tile.pmtiles_id());
            assert!(numbers.eq(first_id(zoom)..first_id(zoom + 1)));
        }
    }

    #[test]
    fn a_subtree_is_one_range_a_zoom() {
        let tile = TileId::new(3, 5, 2).unwrap();
        for below in 1..4u8 {
            let ids: Vec<u64> = (0..1 << below)
                .flat_map(|dx| (0..1 << below).map(move |dy| (dx, dy)))
                .map(|(dx, dy)| {
                    TileId::new(3 + below, (5 << below) + dx, (2 << below) + dy)
                        .unwrap()
                        .pmtiles_id()
                })
                .collect();
            assert_eq!(
                ids.iter().max().unwrap() - ids.iter().min().unwrap() + 1,
                ids.len() as u64
            );
            assert_eq!(
                *ids.iter().min().unwrap(),
                first_id(3 + below) + ((tile.pmtiles_id() - first_id(3)) << (2 * below))
            );
        }
    }
}
