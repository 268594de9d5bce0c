//! Whether an area winds once around its inside, and not at all around anything else.
//!
//! Winding numbers of several areas may be summed up only then: an outline that crosses itself or a hole that reaches out
//! of its shell winds the other way round somewhere, and could cancel another area. The answer may be no for an area that
//! is simple, where it touches itself or where telling would cost too much.

use std::iter;

use super::path::Path;

/// How many pairs of edges are looked at for every edge, on average, before giving up.
const MAX_PAIRS: usize = 64;

#[derive(Clone, Copy)]
struct Side {
    a: (f64, f64),
    b: (f64, f64),
    /// Of which ring, and which of its edges.
    ring: usize,
    place: usize,
}

/// Whether an area of this shell and these holes is certain to be simple.
pub(super) fn is_simple(rings: &[&Path]) -> bool {
    let sides: Vec<Vec<Side>> = rings.iter().enumerate().map(|(i, ring)| sides_of(i, ring)).collect();
    are_apart(&sides) && are_holes_inside(&sides)
}

fn sides_of(ring: usize, path: &Path) -> Vec<Side> {
    let ends = path.vertices().windows(2).map(|ends| (ends[0], ends[1]));
    let side = |(place, (a, b))| Side { a, b, ring, place };
    ends.filter(|(a, b)| a != b).enumerate().map(side).collect()
}

/// Whether no two sides meet but neighbours. Sorted from west to east, a side is compared with those that begin before it
/// ends.
fn are_apart(sides: &[Vec<Side>]) -> bool {
    let lengths: Vec<usize> = sides.iter().map(Vec::len).collect();
    let are_neighbours = |s: &Side, t: &Side| {
        let last = lengths[s.ring].saturating_sub(1);
        s.ring == t.ring && (s.place.abs_diff(t.place) <= 1 || s.place.abs_diff(t.place) == last)
    };
    let mut sorted: Vec<Side> = sides.iter().flatten().copied().collect();
    sorted.sort_unstable_by(|s, t| s.west().total_cmp(&t.west()));
    let mut n_pairs = sorted.len() * MAX_PAIRS;
    for (i, side) in sorted.iter().enumerate() {
        for other in sorted[i + 1..].iter().take_while(|other| other.west() <= side.east()) {
            n_pairs = n_pairs.saturating_sub(1);
            if n_pairs == 0 || (!are_neighbours(side, other) && side.meets(other)) {
                return false;
            }
        }
    }
    true
}

/// Whether every hole lies in the shell and in no other hole, if no sides meet.
fn are_holes_inside(sides: &[Vec<Side>]) -> bool {
    let Some((shell, holes)) = sides.split_first() else {
        return true;
    };
    if holes.len().saturating_mul(sides.iter().map(Vec::len).sum()) > MAX_PAIRS * MAX_PAIRS * MAX_PAIRS {
        return false;
    }
    holes.iter().enumerate().all(|(i, hole)| {
        let Some(side) = hole.first() else { return true };
        let others = holes
            .iter()
            .enumerate()
            .filter(|(j, _)| *j != i)
            .map(|(_, other)| other);
        let n_around = iter::once(shell)
            .chain(others)
            .filter(|ring| surrounds(ring, side.a))
            .count();
        n_around == 1 && surrounds(shell, side.a)
    })
}

fn surrounds(ring: &[Side], p: (f64, f64)) -> bool {
    let crosses = |side: &&Side| {
        let (down, up) = if side.a.1 <= side.b.1 {
            (side.a, side.b)
        } else {
            (side.b, side.a)
        };
        (down.1 <= p.1) && (p.1 < up.1) && cross(down, up, p) > 0.0
    };
    ring.iter().filter(crosses).count() % 2 == 1
}

fn cross(a: (f64, f64), b: (f64, f64), p: (f64, f64)) -> f64 {
    (b.0 - a.0) * (p.1 - a.1) - (b.1 - a.1) * (p.0 - a.0)
}

impl Side {
    fn west(&self) -> f64 {
        self.a.0.min(self.b.0)
    }

    fn east(&self) -> f64 {
        self.a.0.max(self.b.0)
    }

    /// Whether the two sides meet or nearly do.
    fn meets(&self, other: &Self) -> bool {
        let is_off = |a: f64, b: f64, c: f64, d: f64| a.max(b) < c.min(d) || a.min(b) > c.max(d);
        let is_beside = |side: &Self, other: &Self| {
            let (c, d) = (cross(side.a, side.b, other.a), cross(side.a, side.b, other.b));
            let length = (side.b.0 - side.a.0).abs() + (side.b.1 - side.a.1).abs();
            // Farther away than rounding errors reach, and both ends on one side.
            c.abs().min(d.abs()) > 1e-14 * length && (c > 0.0) == (d > 0.0)
        };
        !(is_off(self.a.1, self.b.1, other.a.1, other.b.1) || is_beside(self, other) || is_beside(other, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(vertices: &[(f64, f64)]) -> Path {
        let coords: Vec<_> = vertices.iter().chain(&vertices[..1]).map(|v| (*v).into()).collect();
        Path::of(&coords)
    }

    fn square(west: f64, south: f64, size: f64) -> Path {
        let (east, north) = (west + size, south + size);
        ring(&[(west, south), (east, south), (east, north), (west, north)])
    }

    #[test]
    fn a_square_with_holes_apart_is_simple() {
        let (shell, hole, other) = (square(0.0, 0.0, 10.0), square(1.0, 1.0, 2.0), square(5.0, 5.0, 2.0));
        assert!(is_simple(&[&shell, &hole, &other]));
    }

    #[test]
    fn a_hole_across_the_shell_outside_of_it_or_in_another_hole_is_not() {
        let (shell, hole) = (square(0.0, 0.0, 10.0), square(1.0, 1.0, 5.0));
        for other in [
            square(9.0, 9.0, 2.0),
            square(20.0, 0.0, 2.0),
            square(2.0, 2.0, 1.0),
            square(4.0, 4.0, 4.0),
        ] {
            assert!(!is_simple(&[&shell, &hole, &other]));
        }
    }

    #[test]
    fn an_outline_that_crosses_or_touches_itself_is_not() {
        assert!(!is_simple(&[&ring(&[(0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0)])]));
        assert!(!is_simple(&[&ring(&[
            (0.0, 0.0),
            (4.0, 0.0),
            (4.0, 4.0),
            (2.0, 0.0),
            (0.0, 4.0)
        ])]));
    }
}
