//! What an edit leaves of lines: edges as they run, and joints.
//!
//! A joint is a vertex with its two neighbours. Without joints a line that is split at a vertex, or two lines that
//! exchange their ends at a crossing, would look unchanged.

use super::{
    Chain,
    path::{Pair, Path, Side},
    tally::Tally,
    view::{Place, View},
};

/// Stands in a joint for the neighbour that an end of a line does not have: no place has these bits.
const NONE: [u64; 2] = [u64::MAX; 2];

/// Adds what is left of lines to the chain.
pub(super) fn add(pairs: &[Pair], view: View, chain: &mut Chain) {
    let mut edges = Tally::default();
    let mut joints = Tally::default();
    for (path, side, stretch) in pairs.iter().flat_map(|pair| pair.stretches(view)) {
        tally(&stretch_of(path, stretch, view), side, view, &mut edges, &mut joints);
    }
    // Where an edge is there twice, edges and joints do not say which way goes on where: keep them all.
    if edges.has_repeats() {
        return add_whole(pairs, view, chain);
    }
    for (key, _) in edges.left() {
        chain.push_line(view, Place::of_key([key[0], key[1]]), Place::of_key([key[2], key[3]]));
    }
    for (key, _) in joints.left() {
        let vertex = Place::of_key([key[0], key[1]]);
        chain.push_line(view, vertex, vertex);
    }
}

/// Adds lines without asking what stayed.
fn add_whole(pairs: &[Pair], view: View, chain: &mut Chain) {
    for path in pairs.iter().flat_map(Pair::both) {
        let places = distinct(path.places(view));
        match places[..] {
            [alone] if view == View::Exact => chain.push_line(view, alone, alone),
            _ => places
                .windows(2)
                .for_each(|ends| chain.push_line(view, ends[0], ends[1])),
        }
    }
}

/// A piece of a line in a view, no place repeated, and whether the line begins and ends with it.
struct Stretch {
    places: Vec<Place>,
    begins: bool,
    ends: bool,
}

fn stretch_of(path: &Path, stretch: std::ops::Range<usize>, view: View) -> Stretch {
    let places = |range: std::ops::Range<usize>| path.vertices()[range].iter().map(|vertex| view.place(*vertex));
    Stretch {
        places: distinct(places(stretch.clone())),
        begins: stretch.start == 0,
        ends: stretch.end == path.vertices().len(),
    }
}

fn distinct(places: impl Iterator<Item = Place>) -> Vec<Place> {
    let mut distinct: Vec<Place> = places.collect();
    distinct.dedup();
    distinct
}

fn tally(stretch: &Stretch, side: Side, view: View, edges: &mut Tally<4>, joints: &mut Tally<6>) {
    let Stretch { places, begins, ends } = stretch;
    if places.len() == 1 && view != View::Exact {
        return; // Pictures drop lines of one point.
    }
    for edge in places.windows(2) {
        let ([ax, ay], [bx, by]) = (edge[0].key(), edge[1].key());
        edges.add([ax, ay, bx, by], side.count());
    }
    for (i, place) in places.iter().enumerate() {
        let neighbour = |place: Option<&Place>| place.map_or(NONE, |place| place.key());
        let previous = i.checked_sub(1).and_then(|i| places.get(i));
        let next = places.get(i + 1);
        if (previous.is_some() || *begins) && (next.is_some() || *ends) {
            let ([x, y], [px, py], [nx, ny]) = (place.key(), neighbour(previous), neighbour(next));
            joints.add([x, y, px, py, nx, ny], side.count());
        }
    }
}
