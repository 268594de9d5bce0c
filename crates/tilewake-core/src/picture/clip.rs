//! Cutting an edge at the square that a tile draws, and walking along that square's border.
//!
//! Everything is exact up to the final rounding of a clip point, and that depends on the exact point alone (to the nearest
//! integer, halves upwards). So an edge and its reverse are cut at the same points, from whichever end one computes.

use std::cmp::Ordering;

use super::grid::{Frame, GridPoint};

/// A fraction of an edge, with a positive denominator.
#[derive(Clone, Copy)]
struct Fraction {
    numerator: i128,
    denominator: i128,
}

impl Fraction {
    fn of(numerator: i64, denominator: i64) -> Self {
        let sign = i128::from(denominator.signum());
        Self {
            numerator: i128::from(numerator) * sign,
            denominator: i128::from(denominator) * sign,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        (self.numerator * other.denominator).cmp(&(other.numerator * self.denominator))
    }

    /// This fraction of `length`, rounded to the nearest integer, halves upwards.
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of an i64")]
    fn times(&self, length: i64) -> i64 {
        let doubled = 2 * self.numerator * i128::from(length) + self.denominator;
        doubled.div_euclid(2 * self.denominator) as i64
    }
}

/// The part of the edge `a → b` in the closed square; both ends are the same point if it only touches.
pub(super) fn clip(frame: &Frame, a: GridPoint, b: GridPoint) -> Option<(GridPoint, GridPoint)> {
    if frame.holds(a) && frame.holds(b) {
        return Some((a, b));
    }
    if beyond_one_side(frame, a, b) {
        return None;
    }
    // Liang and Barsky: the edge is inside from its last entry to its first exit.
    let (dx, dy) = (b.x - a.x, b.y - a.y);
    let (mut entry, mut exit) = (Fraction::of(0, 1), Fraction::of(1, 1));
    // An edge along one axis is within the limits of the other, or it would be beyond one side.
    for (from, way) in [(a.x, dx), (a.y, dy)].into_iter().filter(|(_, way)| *way != 0) {
        let (near, far) = if way > 0 {
            (frame.min, frame.max)
        } else {
            (frame.max, frame.min)
        };
        let (enters, leaves) = (Fraction::of(near - from, way), Fraction::of(far - from, way));
        if enters.compare(&entry).is_gt() {
            entry = enters;
        }
        if leaves.compare(&exit).is_lt() {
            exit = leaves;
        }
    }
    let at = |f: &Fraction| GridPoint {
        x: a.x + f.times(dx),
        y: a.y + f.times(dy),
    };
    entry.compare(&exit).is_le().then(|| (at(&entry), at(&exit)))
}

fn beyond_one_side(frame: &Frame, a: GridPoint, b: GridPoint) -> bool {
    let beyond = |a: i64, b: i64| a.max(b) < frame.min || a.min(b) > frame.max;
    beyond(a.x, b.x) || beyond(a.y, b.y)
}

/// The border of the square as a circle: positions run from the corner `(min, min)` the way shells run.
pub(super) struct Border {
    frame: Frame,
    side: i64,
}

impl Border {
    pub(super) fn new(frame: Frame) -> Self {
        Self {
            frame,
            side: frame.max - frame.min,
        }
    }

    /// The position of a point; `None` for a point inside.
    pub(super) fn position(&self, p: GridPoint) -> Option<i64> {
        let Frame { min, max, .. } = self.frame;
        if p.y == min && p.x < max {
            Some(p.x - min)
        } else if p.x == max && p.y < max {
            Some(self.side + p.y - min)
        } else if p.y == max && p.x > min {
            Some(2 * self.side + max - p.x)
        } else if p.x == min {
            Some(3 * self.side + max - p.y)
        } else {
            None
        }
    }

    /// The point at a position, from 0 to four sides.
    pub(super) fn point(&self, position: i64) -> GridPoint {
        let Frame { min, max, .. } = self.frame;
        let along = position % self.side;
        match (position / self.side) % 4 {
            0 => GridPoint { x: min + along, y: min },
            1 => GridPoint { x: max, y: min + along },
            2 => GridPoint { x: max - along, y: max },
            _ => GridPoint { x: min, y: max - along },
        }
    }

    pub(super) fn length(&self) -> i64 {
        4 * self.side
    }

    /// The four corners' positions.
    pub(super) fn corners(&self) -> [i64; 4] {
        [0, self.side, 2 * self.side, 3 * self.side]
    }

    /// Whether both points lie on one side of the square.
    pub(super) fn is_along(&self, a: GridPoint, b: GridPoint) -> bool {
        let Frame { min, max, .. } = self.frame;
        (a.x == b.x && (a.x == min || a.x == max)) || (a.y == b.y && (a.y == min || a.y == max))
    }

    /// How often the way along the border between two points of one side runs over the spot just after position 0.
    pub(super) fn over_zero_directly(&self, from: GridPoint, to: GridPoint) -> i64 {
        let ahead = self.ahead(from, to);
        if ahead <= self.side {
            self.over_zero(from, ahead)
        } else {
            self.over_zero(from, ahead - self.length())
        }
    }

    /// The same for the shadow that an edge outside the square throws on the border, the nearest point of each of its
    /// points.
    pub(super) fn over_zero_outside(&self, a: GridPoint, b: GridPoint) -> i64 {
        let (from, to) = (self.frame.clamp(a), self.frame.clamp(b));
        if from == to {
            return 0;
        }
        if beyond_one_side(&self.frame, a, b) {
            return self.over_zero_directly(from, to);
        }
        // It passes the square on one side with all its corners.
        let corner = self.point(0);
        let ahead = self.ahead(from, to);
        if a.cross(b, corner) > 0 {
            self.over_zero(from, ahead)
        } else {
            self.over_zero(from, ahead - self.length())
        }
    }

    fn ahead(&self, from: GridPoint, to: GridPoint) -> i64 {
        let position = |p| self.position(p).unwrap_or_default();
        (position(to) - position(from)).rem_euclid(self.length())
    }

    fn over_zero(&self, from: GridPoint, way: i64) -> i64 {
        let start = self.position(from).unwrap_or_default();
        match way.cmp(&0) {
            Ordering::Greater => i64::from(start == 0 || start + way > self.length()),
            Ordering::Less => -i64::from(start > 0 && start + way <= 0),
            Ordering::Equal => 0,
        }
    }
}

/// Compares the directions `from → a` and `from → b`, clockwise in a plane whose `y` grows upwards.
pub(super) fn clockwise(from: GridPoint, a: GridPoint, b: GridPoint) -> Ordering {
    let half = |p: GridPoint| p.y < from.y || (p.y == from.y && p.x < from.x);
    half(b).cmp(&half(a)).then(from.cross(a, b).cmp(&0))
}
