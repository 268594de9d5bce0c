//! The plane in which covers are computed: Web Mercator in whole steps of 2^-48 of the world's width.
//!
//! Coordinates are whole numbers small enough that `f64` holds them and their differences without rounding, so whether a
//! point lies left or right of an edge is decided exactly. A step is 2^-8 of a grid unit at the deepest zoom.

use crate::mercator;

/// The world's width in steps.
pub(crate) const WORLD: f64 = (1u64 << 48) as f64;

/// What every buffered box grows by, in steps, so that rounding here or in a renderer's projection hides no contact.
const SLACK: f64 = 8.0;

/// Degrees to steps.
pub(crate) fn project(lon: f64, lat: f64) -> (f64, f64) {
    let (x, y) = mercator::project(lon, lat);
    (whole(x * WORLD), whole(y * WORLD))
}

/// The nearest whole number, for what is smaller than 2^51: above 1.5 · 2^52 there are no fractions to keep.
pub(crate) fn whole(value: f64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    (value + SHIFT) - SHIFT
}

/// The width of a tile in steps.
pub(crate) fn tile_width(zoom: u8) -> f64 {
    (1u64 << (48 - zoom)) as f64
}

/// How far beyond its edge a tile draws, in steps, if it is `grow` of its width.
pub(crate) fn margin(zoom: u8, grow: f64) -> f64 {
    tile_width(zoom) * grow + SLACK
}

/// A directed edge of an outline; a point is an edge from itself to itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    pub(crate) ax: f64,
    pub(crate) ay: f64,
    pub(crate) bx: f64,
    pub(crate) by: f64,
    /// What going once around the edge's area adds to the winding number; 0 for lines and points.
    pub(crate) weight: i64,
}

/// A square around a centre.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Square {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) half: f64,
}

/// The four children of a quadtree cell, by bit `2 * row + column` of a mask: what of them an edge meets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Children {
    /// The centre of the cell.
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// From the cell's centre to a child's, along either axis.
    pub(crate) step: f64,
    /// Half the width of a child's buffered box.
    pub(crate) half: f64,
}

impl Edge {
    /// Whether the edge meets the closed square: no axis of the square, nor the edge's normal, separates the two.
    pub(crate) fn meets(&self, square: Square) -> bool {
        let Square { x, y, half } = square;
        let (ax, ay, bx, by) = (self.ax - x, self.ay - y, self.bx - x, self.by - y);
        let (dx, dy) = (bx - ax, by - ay);
        ax.min(bx) <= half
            && ax.max(bx) >= -half
            && ay.min(by) <= half
            && ay.max(by) >= -half
            && (ax * dy - ay * dx).abs() <= half * (dx.abs() + dy.abs())
    }

    /// Which children's buffered boxes the edge meets: [`meets`](Self::meets) for four squares at once.
    pub(crate) fn met(&self, children: &Children) -> u8 {
        let Children { x, y, step, half } = *children;
        let (ax, ay, bx, by) = (self.ax - x, self.ay - y, self.bx - x, self.by - y);
        let (dx, dy) = (bx - ax, by - ay);
        let (near, far) = (half - step, half + step);
        let (west, east) = (ax.min(bx), ax.max(bx));
        let (north, south) = (ay.min(by), ay.max(by));
        let column = [west <= near && east >= -far, east >= -near && west <= far];
        let row = [north <= near && south >= -far, south >= -near && north <= far];
        let cross = ax * dy - ay * dx;
        let reach = half * (dx.abs() + dy.abs());
        let (along, across) = (step * (dy - dx), step * (dy + dx));
        let line = [
            (cross + along).abs() <= reach,
            (cross - across).abs() <= reach,
            (cross + across).abs() <= reach,
            (cross - along).abs() <= reach,
        ];
        u8::from(row[0] & column[0] & line[0])
            | u8::from(row[0] & column[1] & line[1]) << 1
            | u8::from(row[1] & column[0] & line[2]) << 2
            | u8::from(row[1] & column[1] & line[3]) << 3
    }

    /// On which side of the edge the point lies: 1 where the cross product of the edge and the way to the point is
    /// positive, -1 where it is negative.
    ///
    /// Exact. The point counts as moved by an infinitesimal step to the east and a far smaller one to the south, so it
    /// never lies on an edge, and all crossings are counted alike.
    fn side(&self, x: f64, y: f64) -> i64 {
        let (dx, dy) = (self.bx - self.ax, self.by - self.ay);
        let (px, py) = (x - self.ax, y - self.ay);
        let (one, other) = (dx * py, dy * px);
        let cross = one - other;
        if cross.abs() > (one.abs() + other.abs()) * (4.0 * f64::EPSILON) {
            return if cross > 0.0 { 1 } else { -1 };
        }
        side_exactly((dx, dy), (px, py))
    }

    /// What the edge adds to the winding number around the point if it is counted along the ray to the east.
    pub(crate) fn winding_east(&self, x: f64, y: f64) -> i64 {
        if (self.ay <= y) == (self.by <= y) {
            return 0;
        }
        let down = sign(self.by - self.ay);
        if self.side(x, y) == down {
            down.wrapping_mul(self.weight)
        } else {
            0
        }
    }

    /// What the edge adds to the winding number around the point if it is counted along the ray to the south.
    pub(crate) fn winding_south(&self, x: f64, y: f64) -> i64 {
        if (self.ax <= x) == (self.bx <= x) {
            return 0;
        }
        let west = sign(self.ax - self.bx);
        if self.side(x, y) == west {
            west.wrapping_mul(self.weight)
        } else {
            0
        }
    }
}

/// The side of a point so near to an edge that floating point cannot tell. Out of line, because it is rare and would be
/// computed ahead for every point otherwise.
#[cold]
#[inline(never)]
fn side_exactly((dx, dy): (f64, f64), (px, py): (f64, f64)) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "whole numbers below 2^53")]
    let wide = |value: f64| value as i128;
    let cross = wide(dx) * wide(py) - wide(dy) * wide(px);
    match cross.signum() {
        0 if dy == 0.0 => sign(dx),
        0 => -sign(dy),
        1 => 1,
        _ => -1,
    }
}

fn sign(value: f64) -> i64 {
    if value > 0.0 { 1 } else { -1 }
}

/// The winding number around a point.
pub(crate) fn winding<'a>(edges: impl IntoIterator<Item = &'a Edge>, x: f64, y: f64) -> i64 {
    edges
        .into_iter()
        .fold(0, |sum, edge| sum.wrapping_add(edge.winding_east(x, y)))
}

impl Children {
    /// The winding numbers around the children's centres, from the one around the cell's, by what is crossed on the way
    /// there: first along the row, then along the column. Needs no edges but those that meet the cell.
    pub(crate) fn windings<'a>(&self, edges: impl IntoIterator<Item = &'a Edge>, start: i64) -> [i64; 4] {
        let Self { x, y, step, .. } = *self;
        let (west, east, north, south) = (x - step, x + step, y - step, y + step);
        let mut change = [0i64; 4];
        for edge in edges {
            if edge.weight == 0 {
                continue;
            }
            if (edge.ay <= y) != (edge.by <= y) {
                let here = edge.winding_east(x, y);
                let to_west = edge.winding_east(west, y).wrapping_sub(here);
                let to_east = edge.winding_east(east, y).wrapping_sub(here);
                for (i, way) in [to_west, to_east, to_west, to_east].into_iter().enumerate() {
                    change[i] = change[i].wrapping_add(way);
                }
            }
            for (column, x) in [west, east].into_iter().enumerate() {
                if (edge.ax <= x) != (edge.bx <= x) {
                    let here = edge.winding_south(x, y);
                    for (i, y) in [(column, north), (column + 2, south)] {
                        change[i] = change[i].wrapping_add(edge.winding_south(x, y).wrapping_sub(here));
                    }
                }
            }
        }
        change.map(|c| start.wrapping_add(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A coordinate of a small grid, so that points lie on edges, edges on axes, and vertices on one another.
    fn coordinate() -> impl Strategy<Value = f64> {
        (-8i32..=8).prop_map(f64::from)
    }

    fn closed_chain() -> impl Strategy<Value = Vec<Edge>> {
        proptest::collection::vec((coordinate(), coordinate()), 3..9).prop_map(|ring| {
            let next = ring.iter().cycle().skip(1);
            ring.iter()
                .zip(next)
                .map(|(a, b)| Edge {
                    ax: a.0,
                    ay: a.1,
                    bx: b.0,
                    by: b.1,
                    weight: 1,
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn the_winding_number_is_the_same_along_every_way(
            edges in closed_chain(), x in -4i32..=4, y in -4i32..=4, step in 1i32..=4,
        ) {
            let children = Children { x: x.into(), y: y.into(), step: step.into(), half: 0.0 };
            let around = children.windings(&edges, winding(&edges, children.x, children.y));
            for (i, found) in around.into_iter().enumerate() {
                let column = if i % 2 == 0 { -children.step } else { children.step };
                let row = if i < 2 { -children.step } else { children.step };
                prop_assert_eq!(found, winding(&edges, children.x + column, children.y + row), "child {}", i);
            }
        }

        #[test]
        fn four_squares_at_once_are_met_as_each_alone(
            ax in coordinate(), ay in coordinate(), bx in coordinate(), by in coordinate(), half in 0.0..6.0f64,
        ) {
            let edge = Edge { ax, ay, bx, by, weight: 0 };
            let children = Children { x: 1.0, y: -1.0, step: 2.0, half };
            let alone = [(-1.0, -3.0), (3.0, -3.0), (-1.0, 1.0), (3.0, 1.0)]
                .into_iter()
                .enumerate()
                .fold(0, |mask, (i, (x, y))| mask | u8::from(edge.meets(Square { x, y, half })) << i);
            prop_assert_eq!(edge.met(&children), alone);
        }
    }

    #[test]
    fn sides_are_told_apart_where_floating_point_cannot() {
        // The point is off the diagonal by one step of 2^50.
        let far = (1u64 << 50) as f64;
        let edge = Edge {
            ax: 0.0,
            ay: 0.0,
            bx: far,
            by: far - 1.0,
            weight: 1,
        };
        let (x, y) = (far / 2.0, far / 2.0 - 1.0);
        assert_eq!(edge.side(x, y), -1);
        assert_eq!(edge.side(x, y + 1.0), 1);
    }
}
