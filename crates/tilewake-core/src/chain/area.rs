//! What an edit leaves of areas: a closed chain of edges around the area that changed.
//!
//! Rings are turned so that shells wind one way and holes the other. Which way a ring runs can depend on the zoom: on a
//! coarse grid a thin ring may be flat, and is not drawn, or be turned inside out. Then all its edges count.

use std::cmp::Ordering;

use super::{
    Chain,
    parts::Part,
    path::{Pair, Path, Side},
    simple::is_simple,
    tally::Tally,
    view::{Place, View},
};
use crate::{cover, ring::Measure, tile::MAX_ZOOM};

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
    /// Takes the areas that are not the same before and after.
    pub(super) fn new(before: &[Part<'_>], after: &[Part<'_>]) -> Self {
        let n_pairs = before.len().max(after.len());
        let rings: Vec<_> = (0..n_pairs)
            .flat_map(|i| ring_pairs(before.get(i), after.get(i), i as u64))
            .collect();
        let is_edit = !(before.is_empty() || after.is_empty());
        let winding = if is_edit && can_be_summed(&rings) {
            Winding::Difference
        } else {
            Winding::Each
        };
        Self { rings, winding }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Adds what is left in a view.
    pub(super) fn add(&self, view: View, chain: &mut Chain) {
        let mut edges = Tally::default();
        for ring in &self.rings {
            match self.winding {
                Winding::Difference if ring.before(view) == ring.after(view) => {
                    ring.count_stretches(view, 1, &mut edges);
                }
                Winding::Difference => ring.count_all(view, Side::count, &mut edges),
                Winding::Each => ring.count_all(view, |side| ring.weight(side), &mut edges),
            }
        }
        push(edges, view, chain);
    }

    /// The zoom from which on grids are too fine to turn or hide a ring.
    pub(super) fn settled_from(&self) -> u8 {
        let zooms = self
            .rings
            .iter()
            .flat_map(|ring| [ring.before.settled_from, ring.after.settled_from]);
        match self.winding {
            Winding::Difference => zooms.max().unwrap_or(0),
            // Nothing was cancelled that could be missing.
            Winding::Each => 0,
        }
    }

    /// Adds what snapping to a zoom's grid changes besides: rings so thin that the grid turns them or hides them.
    ///
    /// Of one that does so only before the edit or only after it, all edges count, and of a shell its holes' too. Of one
    /// that does so both times, the edges where it differs: other rings' edges that cancelled them are still drawn.
    pub(super) fn add_thin(&self, zoom: u8, chain: &mut Chain) {
        let view = View::Grid(zoom);
        let mut edges = Tally::default();
        for area in by_area(&self.rings) {
            let is_shell_alike = area[0].is_alike(view);
            for ring in area {
                if !(is_shell_alike && ring.is_alike(view)) {
                    ring.count_all(View::Exact, |side| ring.weight(side), &mut edges);
                } else if !ring.is_as_it_is(view) {
                    ring.count_stretches(View::Exact, ring.weight(Side::After), &mut edges);
                }
            }
        }
        push(edges, View::Exact, chain);
    }
}

fn push(edges: Tally<4>, view: View, chain: &mut Chain) {
    for ([ax, ay, bx, by], weight) in edges.left() {
        chain.push_area(view, Place::of_key([ax, ay]), Place::of_key([bx, by]), weight);
    }
}

fn by_area(rings: &[RingPair]) -> impl Iterator<Item = &[RingPair]> {
    rings.chunk_by(|ring, next| ring.areas == next.areas)
}

/// Whether a winding number that is the same before and after means that what is inside is the same: if one area differs
/// in its shell or in its holes, or if none winds around anything but its inside.
fn can_be_summed(rings: &[RingPair]) -> bool {
    let is_one = by_area(rings).count() == 1;
    let (shells, holes): (Vec<_>, Vec<_>) = rings.iter().partition(|ring| ring.role == Role::Shell);
    let stays = |rings: &[&RingPair]| rings.iter().all(|ring| ring.pair.is_the_same());
    (is_one && (stays(&shells) || stays(&holes)))
        || by_area(rings).all(|area| {
            let before: Vec<_> = area.iter().filter_map(|ring| ring.pair.before()).collect();
            let after: Vec<_> = area.iter().filter_map(|ring| ring.pair.after()).collect();
            is_simple(&before) && is_simple(&after)
        })
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

    /// Whether the same becomes of the ring before and after in a view: it runs as it does, the other way, or not at all.
    fn is_alike(&self, view: View) -> bool {
        let [before, after] = self.kept(view);
        before == after
    }

    /// Whether nothing becomes of it.
    fn is_as_it_is(&self, view: View) -> bool {
        self.kept(view) == [1, 1]
    }

    /// What becomes of the ring before and after in a view: 1 if it runs as it does, -1 if the other way round, 0 if it is
    /// not drawn. A ring that is missing stays missing.
    fn kept(&self, view: View) -> [i64; 2] {
        let before = self.pair.before().map(|_| self.before(view) * self.before.exact);
        let after = self.pair.after().map(|_| self.after(view) * self.after.exact);
        [before.unwrap_or(1), after.unwrap_or(1)]
    }

    /// What going once around the area adds where nothing is taken off.
    fn weight(&self, side: Side) -> i64 {
        match side {
            Side::Before => cover::area_weight(self.areas[0]),
            Side::After => cover::area_weight(self.areas[1]),
        }
    }

    /// Counts the edges where the ring differs.
    fn count_stretches(&self, view: View, weight: i64, edges: &mut Tally<4>) {
        for (path, side, stretch) in self.pair.stretches(view) {
            let weight = weight.wrapping_mul(side.count());
            count(&path.vertices()[stretch], self.turn(side, view), weight, view, edges);
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
                .find(|zoom| ring.is_settled(grid_unit(*zoom)))
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

/// The unit of a zoom's grid, in widths of the world.
fn grid_unit(zoom: u8) -> f64 {
    1.0 / (1u64 << (zoom + 12)) as f64
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
