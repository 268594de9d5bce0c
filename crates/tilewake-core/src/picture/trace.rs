//! Turning a closed chain of edges into rings.
//!
//! The answer depends on the edges alone, not on their order. At every vertex the way goes on along the sharpest turn
//! towards the inside, so rings that meet in a point do not cross there, and a ring ends as soon as it is back at any
//! of its own points, so none touches itself.

use super::{area::Ring, clip::clockwise, grid::GridPoint};

/// A directed edge between two different points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: GridPoint,
    pub(super) to: GridPoint,
}

/// The rings of a chain in which as many edges lead to every point as away from it; each starts at its smallest point.
pub(super) fn rings(edges: Vec<Edge>) -> Vec<Ring> {
    let mut tracer = Tracer::new(edges);
    let mut rings = Vec::new();
    for start in 0..tracer.edges.len() {
        if tracer.next_free(start) == start {
            tracer.walk(start, &mut rings);
        }
    }
    rings
}

/// The edges by where they start, and clockwise around it.
struct Tracer {
    edges: Vec<Edge>,
    /// For every edge an edge not before it: itself until it is walked, then one from which the search for the next edge
    /// that was not walked goes on.
    free: Vec<usize>,
    /// For every edge that is the first at its vertex: how many points of the way lead there, if the way does.
    place: Vec<Option<usize>>,
}

impl Tracer {
    fn new(mut edges: Vec<Edge>) -> Self {
        edges.sort_unstable_by(|a, b| {
            let around = || clockwise(a.from, a.to, b.to).then(a.to.cmp(&b.to));
            a.from.cmp(&b.from).then_with(around)
        });
        let n = edges.len();
        Self {
            edges,
            free: (0..=n).collect(),
            place: vec![None; n],
        }
    }

    /// Walks from an edge until the way is back where it began with nothing left of it but rings.
    fn walk(&mut self, start: usize, rings: &mut Vec<Ring>) {
        let mut way: Vec<usize> = Vec::new();
        let mut at = start;
        loop {
            let edge = self.edges[at];
            self.free[at] = at + 1;
            let here = self.first_at(edge.from);
            self.place[here] = Some(way.len());
            way.push(here);
            let there = self.first_at(edge.to);
            if let Some(place) = self.place.get(there).copied().flatten() {
                rings.push(self.take_ring(&mut way, place));
                if way.is_empty() {
                    return;
                }
            }
            match self.turn(edge, there) {
                Some(next) => at = next,
                None => return, // Only in a chain that is not closed.
            }
        }
    }

    fn take_ring(&mut self, way: &mut Vec<usize>, place: usize) -> Ring {
        let mut ring: Ring = way
            .drain(place..)
            .map(|vertex| {
                self.place[vertex] = None;
                self.edges[vertex].from
            })
            .collect();
        let smallest = (0..ring.len()).min_by_key(|&i| ring[i]).unwrap_or(0);
        ring.rotate_left(smallest);
        ring
    }

    /// The free edge at the end of `edge` that is next clockwise from the way back; the way back itself comes last.
    fn turn(&mut self, edge: Edge, first: usize) -> Option<usize> {
        let vertex = edge.to;
        let behind = self.edges[first..].partition_point(|e| e.from == vertex) + first;
        let around = &self.edges[first..behind];
        let after_back = around.partition_point(|e| clockwise(vertex, e.to, edge.from).is_le());
        [first + after_back, first]
            .map(|from| self.next_free(from))
            .into_iter()
            .find(|&next| next < behind)
    }

    fn first_at(&self, vertex: GridPoint) -> usize {
        self.edges.partition_point(|e| e.from < vertex)
    }

    fn next_free(&mut self, from: usize) -> usize {
        let mut found = from;
        while self.free[found] != found {
            found = self.free[found];
        }
        let mut at = from;
        while self.free[at] != found {
            at = std::mem::replace(&mut self.free[at], found);
        }
        found
    }
}
