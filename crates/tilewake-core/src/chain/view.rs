//! How closely an edit is looked at: as it is, or on a zoom's grid.

use crate::cover::plane;

/// Units of a tile's grid, as a power of two.
const UNIT_BITS: u8 = 12;

/// A place in a view. Two places are the same if their bits are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// How places are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// As they are.
    Exact,
    /// By the point of this zoom's grid that a picture draws for them.
    Grid(u8),
}

impl View {
    /// What the view shows of a point of the unit square.
    pub(super) fn place(self, (u, v): (f64, f64)) -> Place {
        match self {
            Self::Exact => Place { x: u + 0.0, y: v + 0.0 },
            Self::Grid(zoom) => {
                let units = (1u64 << (zoom + UNIT_BITS)) as f64;
                // Half to even, as pictures do; adding zero leaves one zero only.
                let snap = |value: f64| plane::whole(value * units) + 0.0;
                Place { x: snap(u), y: snap(v) }
            }
        }
    }

    /// A place in the steps of the plane that is covered.
    pub(super) fn steps(self, place: Place) -> (f64, f64) {
        match self {
            Self::Exact => (
                plane::whole(place.x * plane::WORLD),
                plane::whole(place.y * plane::WORLD),
            ),
            Self::Grid(zoom) => {
                let unit = plane::tile_width(zoom + UNIT_BITS);
                (place.x * unit, place.y * unit)
            }
        }
    }
}

impl Place {
    /// The place as two numbers that are the same for the same place only.
    pub(super) fn key(self) -> [u64; 2] {
        [self.x.to_bits(), self.y.to_bits()]
    }

    /// The place of a [`key`](Self::key).
    pub(super) fn of_key(key: [u64; 2]) -> Self {
        Self {
            x: f64::from_bits(key[0]),
            y: f64::from_bits(key[1]),
        }
    }
}
