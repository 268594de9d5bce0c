//! The parts of two geometries, and which of them an edit touched.

use std::{cmp::Ordering, ops::Range};

use geo_types::Coord;

use crate::edges::{Drawable, PathKind};

/// What a part draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PartKind {
    Point,
    Line,
    Area,
}

/// A geometry taken apart, in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Parts {
    coords: Vec<Coord<f64>>,
    /// Where each path's coordinates stand.
    paths: Vec<Range<usize>>,
    /// What each part is, and where its paths stand: an area's shell first, then its holes.
    kinds: Vec<(PartKind, Range<usize>)>,
}

/// One part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    of: &'a Parts,
    kind: PartKind,
    first: usize,
    n_paths: usize,
}

impl Parts {
    /// Takes a geometry apart; longitudes are read by `longitude`.
    pub(super) fn of(drawable: Drawable<'_>, longitude: impl Fn(f64) -> f64) -> Self {
        let mut parts = Self::default();
        drawable.each_path(|kind, coords| parts.add(kind, coords, &longitude));
        parts
    }

    fn add(&mut self, kind: PathKind, coords: &[Coord<f64>], longitude: impl Fn(f64) -> f64) {
        let start = self.coords.len();
        // Adding zero leaves one zero only, so that equal places have equal bits.
        let normal = |c: &Coord<f64>| Coord {
            x: longitude(c.x) + 0.0,
            y: c.y + 0.0,
        };
        self.coords.extend(coords.iter().map(normal));
        let path = self.paths.len();
        self.paths.push(start..self.coords.len());
        let kind = match kind {
            PathKind::Point => PartKind::Point,
            PathKind::Line => PartKind::Line,
            PathKind::Shell => PartKind::Area,
            PathKind::Hole => {
                if let Some((_, paths)) = self.kinds.last_mut() {
                    paths.end = path + 1;
                }
                return;
            }
        };
        self.kinds.push((kind, path..path + 1));
    }

    fn iter(&self) -> impl Iterator<Item = Part<'_>> {
        self.kinds.iter().map(|(kind, paths)| Part {
            of: self,
            kind: *kind,
            first: paths.start,
            n_paths: paths.len(),
        })
    }
}

impl<'a> Part<'a> {
    pub(super) fn kind(&self) -> PartKind {
        self.kind
    }

    /// The coordinates of the part's paths.
    pub(super) fn paths(&self) -> impl ExactSizeIterator<Item = &'a [Coord<f64>]> + use<'a> {
        let of = self.of;
        of.paths[self.first..self.first + self.n_paths]
            .iter()
            .map(|path| &of.coords[path.clone()])
    }

    /// An order of parts in which only those that draw the same are equal.
    fn compare(&self, other: &Self) -> Ordering {
        let lengths = |part: &Self| part.paths().map(<[_]>::len);
        let numbers = |part: &Self| part.paths().flatten().flat_map(|c| [c.x.to_bits(), c.y.to_bits()]);
        (self.kind.cmp(&other.kind))
            .then_with(|| lengths(self).cmp(lengths(other)))
            .then_with(|| numbers(self).cmp(numbers(other)))
    }
}

/// The parts that are not in both geometries, of each in its order.
pub(super) fn touched<'a>(before: &'a Parts, after: &'a Parts) -> [Vec<Part<'a>>; 2] {
    let (mut left, mut right): (Vec<_>, Vec<_>) = (before.iter().collect(), after.iter().collect());
    // Nearly always the parts that stay have stayed in their places.
    let same: Vec<bool> = left.iter().zip(&right).map(|(l, r)| l.compare(r).is_eq()).collect();
    for parts in [&mut left, &mut right] {
        let mut same = same.iter();
        parts.retain(|_| !same.next().copied().unwrap_or(false));
    }
    if !(left.is_empty() || right.is_empty()) {
        drop_common(&mut left, &mut right);
    }
    [left, right]
}

/// Drops pairs of equal parts, wherever they stand.
fn drop_common<'a>(left: &mut Vec<Part<'a>>, right: &mut Vec<Part<'a>>) {
    let sorted = |parts: &[Part<'_>]| {
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by(|&i, &j| parts[i].compare(&parts[j]));
        order
    };
    let (by_left, by_right) = (sorted(left), sorted(right));
    let (mut keep_left, mut keep_right) = (vec![true; left.len()], vec![true; right.len()]);
    let (mut l, mut r) = (0, 0);
    while let (Some(&i), Some(&j)) = (by_left.get(l), by_right.get(r)) {
        let order = left[i].compare(&right[j]);
        if order.is_eq() {
            (keep_left[i], keep_right[j]) = (false, false);
        }
        l += usize::from(order.is_le());
        r += usize::from(order.is_ge());
    }
    for (parts, keep) in [(left, keep_left), (right, keep_right)] {
        let mut keep = keep.into_iter();
        parts.retain(|_| keep.next().unwrap_or(true));
    }
}
