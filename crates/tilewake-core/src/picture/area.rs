//! What an area draws in one tile: a pure function of the edges that meet the tile's square and of how often the
//! outline winds around it.
//!
//! Rings are never carried over from the source. Their edges are cut, opposite ones cancel, the border of the square is
//! added as often as the outline winds around the area just inside, and what results is a closed chain of edges that
//! [`trace`] follows by a fixed rule. So neither the first vertex of a ring, nor its direction, nor the order of the
//! parts, nor anything beyond the square leaves a mark.

use super::{
    clip::{Border, clip},
    grid::{Frame, GridPoint},
    trace::{self, Edge},
};

/// Which side of a ring the area is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Shell,
    Hole,
}

/// A ring, the first point not repeated at the end.
pub type Ring = Vec<GridPoint>;

/// A polygon as a vector tile has it: every ring of at least three points and with some area, none meeting a point
/// twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Polygon {
    /// The outline: clockwise on the screen.
    pub exterior: Ring,
    /// Rings inside it that are left out: the other way round.
    pub holes: Vec<Ring>,
}

/// The edges of an area that are inside the square, and what the rest of them says about its border.
pub(super) struct Outline {
    frame: Frame,
    border: Border,
    /// Pieces of edges, none of them along the border.
    inside: Vec<Edge>,
    /// How often the outline winds around what is just inside the border after its position 0.
    winding: i64,
}

impl Outline {
    pub(super) fn new(frame: Frame) -> Self {
        Self {
            frame,
            border: Border::new(frame),
            inside: Vec::new(),
            winding: 0,
        }
    }

    /// Adds a ring of snapped points; whether its first point is repeated at the end does not matter.
    pub(super) fn add(&mut self, ring: &[GridPoint], role: Role) {
        let area = doubled_area(ring);
        if area == 0 {
            return; // Flat.
        }
        let runs_right = (area > 0) == (role == Role::Shell);
        let Some(&last) = ring.last() else { return };
        let mut a = last;
        for &b in ring {
            if runs_right {
                self.add_edge(a, b);
            } else {
                self.add_edge(b, a);
            }
            a = b;
        }
    }

    fn add_edge(&mut self, a: GridPoint, b: GridPoint) {
        if a == b {
            return;
        }
        let Some((first, last)) = clip(&self.frame, a, b) else {
            self.winding += self.border.over_zero_outside(a, b);
            return;
        };
        if a != first {
            self.winding += self.border.over_zero_directly(self.frame.clamp(a), first);
        }
        if self.border.is_along(first, last) {
            self.winding += self.border.over_zero_directly(first, last);
        } else if first != last {
            self.inside.push(Edge { from: first, to: last });
        }
        if b != last {
            self.winding += self.border.over_zero_directly(last, self.frame.clamp(b));
        }
    }

    /// What is drawn of the area.
    pub(super) fn polygons(self) -> Vec<Polygon> {
        nest(trace::rings(self.closed()))
    }

    /// The closed chain of edges around the area in the square.
    pub(super) fn closed(self) -> Vec<Edge> {
        let mut edges = cancel(self.inside);
        let breaks = border_breaks(&self.border, &edges);
        close(&self.border, &breaks, self.winding, &mut edges);
        edges
    }
}

/// Leaves of every edge as many as run one way more often than the other.
fn cancel(mut edges: Vec<Edge>) -> Vec<Edge> {
    let undirected = |e: &Edge| (e.from.min(e.to), e.from.max(e.to));
    edges.sort_unstable_by_key(undirected);
    let mut left = Vec::with_capacity(edges.len());
    for same in edges.chunk_by(|a, b| undirected(a) == undirected(b)) {
        let (from, to) = undirected(&same[0]);
        let n_forward = same.iter().filter(|e| e.from == from).count();
        let n_back = same.len() - n_forward;
        let edge = if n_forward > n_back {
            Edge { from, to }
        } else {
            Edge { from: to, to: from }
        };
        left.extend(std::iter::repeat_n(edge, n_forward.abs_diff(n_back)));
    }
    left
}

/// Where edges reach the border or leave it, with what is added there to the winding number just inside.
fn border_breaks(border: &Border, edges: &[Edge]) -> Vec<(i64, i64)> {
    let mut breaks = border.corners().map(|corner| (corner, 0)).to_vec();
    for edge in edges {
        breaks.extend(border.position(edge.from).map(|p| (p, -1)));
        breaks.extend(border.position(edge.to).map(|p| (p, 1)));
    }
    breaks.sort_unstable();
    breaks.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    breaks
}

/// Adds the border, as often as the outline winds around what is just inside of it.
///
/// The first time in pieces from break to break, so that an edge that only touches the border meets a vertex there. The
/// further times (overlapping parts) in pieces as long as possible, so that there are no more of them than edges.
fn close(border: &Border, breaks: &[(i64, i64)], winding: i64, edges: &mut Vec<Edge>) {
    let mut level = winding - breaks[0].1;
    let levels: Vec<i64> = breaks
        .iter()
        .map(|&(_, change)| {
            level += change;
            level
        })
        .collect();
    let ends = breaks.iter().skip(1).map(|b| b.0).chain([border.length()]);
    let stretches: Vec<Stretch> = breaks
        .iter()
        .zip(ends)
        .zip(levels)
        .map(|((&(start, _), end), winding)| Stretch { start, end, winding })
        .collect();
    for sign in [1, -1] {
        add_stretches(border, &stretches, sign, edges);
    }
}

/// A piece of the border between two neighbouring breaks, corners being breaks.
struct Stretch {
    start: i64,
    end: i64,
    winding: i64,
}

fn add_stretches(border: &Border, stretches: &[Stretch], sign: i64, edges: &mut Vec<Edge>) {
    let mut push = |start: i64, end: i64| {
        let (from, to) = (border.point(start), border.point(end));
        edges.push(if sign > 0 {
            Edge { from, to }
        } else {
            Edge { from: to, to: from }
        });
    };
    let mut open: Vec<i64> = Vec::new();
    for stretch in stretches {
        let times = usize::try_from(stretch.winding * sign).unwrap_or(0);
        if times > 0 {
            push(stretch.start, stretch.end);
        }
        let further = times.saturating_sub(1);
        while open.len() > further {
            open.pop()
                .into_iter()
                .for_each(|start| push_long(border, start, stretch.start, &mut push));
        }
        open.resize(further, stretch.start);
    }
    for start in open {
        push_long(border, start, border.length(), &mut push);
    }
}

/// One piece a side: a piece around a corner would cut it off.
fn push_long(border: &Border, start: i64, end: i64, push: &mut impl FnMut(i64, i64)) {
    let corners = border.corners().into_iter().filter(|c| (start + 1..end).contains(c));
    let last = corners.fold(start, |from, corner| {
        push(from, corner);
        corner
    });
    push(last, end);
}

/// Twice the area of a ring: positive if it runs clockwise on the screen.
fn doubled_area(ring: &[GridPoint]) -> i128 {
    let Some(&first) = ring.first() else { return 0 };
    ring.windows(2).map(|edge| first.cross(edge[0], edge[1])).sum()
}

/// Sorts rings into polygons. A hole belongs to the smallest exterior around it; one that is in none cuts nothing out
/// of anything and is drawn as an area of its own, as the renderers do that fill wherever the winding is not zero.
fn nest(rings: Vec<Ring>) -> Vec<Polygon> {
    let mut sized: Vec<(i128, Ring)> = rings.into_iter().map(|r| (doubled_area(&r), r)).collect();
    sized.retain(|(area, _)| *area != 0);
    sized.sort_unstable();
    let first_exterior = sized.partition_point(|(area, _)| *area < 0);
    let exteriors = sized.split_off(first_exterior);
    let mut polygons: Vec<(Bounds, Polygon)> = exteriors
        .into_iter()
        .map(|(_, exterior)| {
            (
                Bounds::of(&exterior),
                Polygon {
                    exterior,
                    holes: Vec::new(),
                },
            )
        })
        .collect();
    let mut strays = Vec::new();
    for (_, mut hole) in sized {
        let bounds = Bounds::of(&hole);
        let around = polygons
            .iter_mut()
            .find(|(outer, polygon)| outer.hold(&bounds) && surrounds(&polygon.exterior, &hole));
        if let Some((_, polygon)) = around {
            polygon.holes.push(hole);
        } else {
            hole[1..].reverse();
            strays.push(Polygon {
                exterior: hole,
                holes: Vec::new(),
            });
        }
    }
    let mut polygons: Vec<Polygon> = polygons.into_iter().map(|(_, p)| p).chain(strays).collect();
    for polygon in &mut polygons {
        polygon.holes.sort_unstable();
    }
    polygons.sort_unstable();
    polygons
}

/// The bounding box of a ring.
struct Bounds {
    low: GridPoint,
    high: GridPoint,
}

impl Bounds {
    fn of(ring: &Ring) -> Self {
        let mut bounds = Self {
            low: ring[0],
            high: ring[0],
        };
        for p in ring {
            bounds.low = GridPoint {
                x: bounds.low.x.min(p.x),
                y: bounds.low.y.min(p.y),
            };
            bounds.high = GridPoint {
                x: bounds.high.x.max(p.x),
                y: bounds.high.y.max(p.y),
            };
        }
        bounds
    }

    fn hold(&self, other: &Self) -> bool {
        self.low.x <= other.low.x
            && self.low.y <= other.low.y
            && self.high.x >= other.high.x
            && self.high.y >= other.high.y
    }
}

/// Whether the hole lies inside the exterior. The first of its vertices and middles of edges that is not on the
/// exterior itself tells.
fn surrounds(exterior: &[GridPoint], hole: &[GridPoint]) -> bool {
    let next = hole.iter().cycle().skip(1);
    let vertices = hole.iter().map(|p| (*p, *p));
    let middles = hole.iter().copied().zip(next.copied());
    vertices
        .chain(middles)
        .find_map(|(a, b)| {
            is_inside(
                exterior,
                GridPoint {
                    x: a.x + b.x,
                    y: a.y + b.y,
                },
            )
        })
        .unwrap_or(true)
}

/// Whether a point, given at twice its coordinates, lies inside the ring; `None` on the ring itself.
fn is_inside(ring: &[GridPoint], doubled: GridPoint) -> Option<bool> {
    let twice = |p: GridPoint| GridPoint { x: 2 * p.x, y: 2 * p.y };
    let mut inside = false;
    let mut a = twice(*ring.last()?);
    for b in ring.iter().map(|p| twice(*p)) {
        let side = a.cross(b, doubled);
        let between = |from: i64, to: i64, at: i64| from.min(to) <= at && at <= from.max(to);
        if side == 0 && between(a.x, b.x, doubled.x) && between(a.y, b.y, doubled.y) {
            return None;
        }
        let crosses = (a.y > doubled.y) != (b.y > doubled.y);
        if crosses && ((side > 0) == (b.y > a.y)) {
            inside = !inside;
        }
        a = b;
    }
    Some(inside)
}
