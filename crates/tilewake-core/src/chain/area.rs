//! What an edit leaves of areas: a closed chain of edges around the area that changed.
//!
//! Rings are turned so that shells wind one way and holes the other. Which way a ring runs can depend on the zoom: on a
//! coarse grid a thin ring may be flat, and is not drawn, or be turned inside out. Then all its edges count.

use std::cmp::Ordering;

use super::{
    Chain,
    parts::Part,
    path::{Pair, Path, Side},
    tally::Tally,
    view::{Place, View},
};
use crate::{cover, layer::Zooms, tile::MAX_ZOOM};

/// The areas that an edit touched.
#[derive(Debug)]
pub(super) struct Areas {
    rings: Vec<RingPair>,
    winding: Winding,
}

/// How winding numbers of several areas are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Winding {
    /// As they are, and what was there before is taken off: what is left winds around what changed.
    Difference,
    /// Each area by itself, before and after: nothing cancels, everything touched has changed.
    Each,
}

/// A ring before and after.
#[derive(Debug)]
struct RingPair {
    pair: Pair,
    role: Role,
    /// Of the area before and the area after; they are different things where nothing is taken off.
    areas: [u64; 2],
    before: Turn,
    after: Turn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Shell,
    Hole,
}

/// Which way a ring runs: 1 and -1 either way, 0 for a flat ring.
#[derive(Clone, Copy, Debug)]
struct Turn {
    exact: i64,
    /// From this zoom on the grid is too fine to change it.
    settled_from: u8,
}

impl Areas {
    /// Sorts out the areas that are not the same before and after.
    pub(super) fn new(before: &[Part<'_>], after: &[Part<'_>]) -> Self {
        let has_holes = before.iter().chain(after).any(|area| area.paths().len() > 1);
        let is_one = before.len() == 1 && after.len() == 1;
        let is_edit = !(before.is_empty() || after.is_empty());
        // A hole that reaches out of its own area could undo what changed in another one.
        let winding = if is_edit && (is_one || !has_holes) {
            Winding::Difference
        } else {
            Winding::Each
        };
        let n_pairs = before.len().max(after.len());
        let rings = (0..n_pairs).flat_map(|i| ring_pairs(before.get(i), after.get(i), i as u64));
        Self {
            rings: rings.collect(),
            winding,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Adds what is left in a view.
    pub(super) fn add(&self, view: View, chain: &mut Chain) {
        let mut edges = Tally::default();
        for ring in &self.rings {
            match self.winding {
                Winding::Difference if ring.before(view) == ring.after(view) => ring.count_stretches(view, &mut edges),
                Winding::Difference => ring.count_all(view, Side::count, &mut edges),
                Winding::Each => ring.count_all(view, |side| ring.weight(side), &mut edges),
            }
        }
        push(edges, view, chain);
    }

    /// The zooms at which rings do not all look alike on the grid: what stayed of them as they are may have been drawn
    /// and not be any more, or the other way round.
    pub(super) fn turning_zooms(&self, zooms: Zooms) -> impl Iterator<Item = u8> {
        zooms
            .iter()
            .filter(|zoom| self.winding == Winding::Difference && self.is_turning(View::Grid(*zoom)))
    }

    fn is_turning(&self, view: View) -> bool {
        let mut kept = self.rings.iter().flat_map(|ring| ring.kept(view));
        let first = kept.next();
        kept.any(|kept| Some(kept) != first)
    }

    /// Adds all edges of the rings, as they are.
    pub(super) fn add_whole(&self, chain: &mut Chain) {
        let mut edges = Tally::default();
        for ring in &self.rings {
            ring.count_all(View::Exact, |side| ring.weight(side), &mut edges);
        }
        push(edges, View::Exact, chain);
    }
}

fn push(edges: Tally<4>, view: View, chain: &mut Chain) {
    for ([ax, ay, bx, by], weight) in edges.left() {
        chain.push_area(view, Place::of_key([ax, ay]), Place::of_key([bx, by]), weight);
    }
}

fn ring_pairs<'a>(
    before: Option<&Part<'a>>,
    after: Option<&Part<'a>>,
    i: u64,
) -> impl Iterator<Item = RingPair> + use<'a> {
    let rings = |area: Option<&Part<'a>>| area.map(|area| area.paths().collect::<Vec<_>>()).unwrap_or_default();
    let (before, after) = (rings(before), rings(after));
    (0..before.len().max(after.len())).map(move |n| {
        let pair = Pair::new(before.get(n).copied(), after.get(n).copied());
        RingPair {
            role: if n == 0 { Role::Shell } else { Role::Hole },
            areas: [2 * i, 2 * i + 1],
            before: Turn::of(pair.before()),
            after: Turn::of(pair.after()),
            pair,
        }
    })
}

impl RingPair {
    /// Which way the ring runs, as seen from its area: 0 if it is not drawn.
    fn turn(&self, side: Side, view: View) -> i64 {
        let turn = match side {
            Side::Before => self.before(view),
            Side::After => self.after(view),
        };
        turn * self.role.sign()
    }

    fn before(&self, view: View) -> i64 {
        self.before.seen(self.pair.before(), view)
    }

    fn after(&self, view: View) -> i64 {
        self.after.seen(self.pair.after(), view)
    }

    /// What becomes of the rings in a view: 1 if they run as they do, -1 the other way round, 0 if they are not drawn.
    fn kept(&self, view: View) -> impl Iterator<Item = i64> {
        let before = self.pair.before().map(|_| self.before(view) * self.before.exact);
        let after = self.pair.after().map(|_| self.after(view) * self.after.exact);
        before.into_iter().chain(after)
    }

    /// What going once around the area adds where nothing is taken off.
    fn weight(&self, side: Side) -> i64 {
        match side {
            Side::Before => cover::area_weight(self.areas[0]),
            Side::After => cover::area_weight(self.areas[1]),
        }
    }

    /// Counts the edges where the ring differs.
    fn count_stretches(&self, view: View, edges: &mut Tally<4>) {
        for (path, side, stretch) in self.pair.stretches(view) {
            count(
                &path.vertices()[stretch],
                self.turn(side, view),
                side.count(),
                view,
                edges,
            );
        }
    }

    fn count_all(&self, view: View, weight: impl Fn(Side) -> i64, edges: &mut Tally<4>) {
        for (path, side) in self.pair.sides() {
            count(path.vertices(), self.turn(side, view), weight(side), view, edges);
        }
    }
}

/// Counts the edges of a ring as many times as `weight`, in the direction that all shells share.
///
/// As they are, an edge one way and one the other way stay two things: parts that are merged lose an outline. On a grid
/// they cancel each other, as in a picture.
fn count(vertices: &[(f64, f64)], turn: i64, weight: i64, view: View, edges: &mut Tally<4>) {
    if turn == 0 {
        return; // Not drawn.
    }
    let mut add = |a: [u64; 2], b: [u64; 2], weight| edges.add([a[0], a[1], b[0], b[1]], weight);
    let mut keys = vertices.iter().map(|vertex| view.place(*vertex).key());
    let Some(mut a) = keys.next() else { return };
    for b in keys {
        match view {
            View::Exact if turn > 0 => add(a, b, weight),
            View::Exact => add(b, a, weight),
            View::Grid(_) => match a.cmp(&b) {
                Ordering::Less => add(a, b, weight.wrapping_mul(turn)),
                Ordering::Equal => {}
                Ordering::Greater => add(b, a, weight.wrapping_mul(-turn)),
            },
        }
        a = b;
    }
}

impl Role {
    fn sign(self) -> i64 {
        match self {
            Self::Shell => 1,
            Self::Hole => -1,
        }
    }
}

impl Turn {
    fn of(path: Option<&Path>) -> Self {
        let Some(path) = path else {
            return Self {
                exact: 0,
                settled_from: 0,
            };
        };
        let ring = Measure::of(path.vertices());
        Self {
            exact: if ring.doubled_area < 0.0 { -1 } else { 1 },
            settled_from: (0..=MAX_ZOOM)
                .find(|zoom| ring.is_settled(*zoom))
                .unwrap_or(MAX_ZOOM + 1),
        }
    }

    fn seen(self, path: Option<&Path>, view: View) -> i64 {
        match (path, view) {
            (None, _) => 0,
            (Some(path), View::Grid(zoom)) if zoom < self.settled_from => turn_on_grid(path, view),
            _ => self.exact,
        }
    }
}

/// How large a ring is, in widths of the world.
struct Measure {
    doubled_area: f64,
    /// The sum of the edges' extents along both axes.
    length: f64,
    n_edges: usize,
}

impl Measure {
    fn of(ring: &[(f64, f64)]) -> Self {
        let (x, y) = ring.first().copied().unwrap_or_default();
        let mut measure = Self {
            doubled_area: 0.0,
            length: 0.0,
            n_edges: ring.len(),
        };
        for ends in ring.windows(2) {
            let ((ax, ay), (bx, by)) = (ends[0], ends[1]);
            measure.doubled_area += (ax - x) * (by - y) - (bx - x) * (ay - y);
            measure.length += (bx - ax).abs() + (by - ay).abs();
        }
        measure
    }

    /// Whether no snapping to the zoom's grid turns the ring. Vertices move by half a unit along either axis, which
    /// changes the doubled area by no more than the length and half a unit for every edge; and rounding errors.
    fn is_settled(&self, zoom: u8) -> bool {
        let units = (1u64 << (zoom + 12)) as f64;
        let (area, length) = (self.doubled_area.abs() * units * units, self.length * units);
        area > length + self.n_edges as f64 + 1e-12 * length * length
    }
}

fn turn_on_grid(path: &Path, view: View) -> i64 {
    let mut places = path.places(view);
    let Some(first) = places.next() else { return 0 };
    #[expect(clippy::cast_possible_truncation, reason = "whole numbers below 2^53")]
    let way = |place: Place| ((place.x - first.x) as i128, (place.y - first.y) as i128);
    let mut from = (0, 0);
    let mut doubled_area = 0i128;
    for to in places.map(way) {
        doubled_area += from.0 * to.1 - to.0 * from.1;
        from = to;
    }
    match doubled_area.cmp(&0) {
        Ordering::Greater => 1,
        Ordering::Equal => 0,
        Ordering::Less => -1,
    }
}
