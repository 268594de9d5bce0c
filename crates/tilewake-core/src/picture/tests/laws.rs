//! What holds for every picture, on random shapes in a small world: few different coordinates, so that edges meet,
//! overlap, cancel and run along the border all the time.

use geo_types::{Line, MultiLineString, MultiPoint, Point};
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

type Shell = Vec<(i64, i64)>;

fn coordinate() -> impl Strategy<Value = i64> {
    select(vec![
        -9000, -2000, -1, 0, 1, 900, 1365, 2048, 2049, 3000, 4095, 4096, 4097, 6000, 13_000,
    ])
}

fn place() -> impl Strategy<Value = (i64, i64)> {
    (coordinate(), coordinate())
}

fn ring() -> impl Strategy<Value = Shell> {
    vec(place(), 3..9)
}

/// Parts with a shell and some holes that need not lie inside it.
fn parts() -> impl Strategy<Value = Vec<Vec<Shell>>> {
    vec(vec(ring(), 1..3), 1..4)
}

fn areas(parts: &[Vec<Shell>]) -> Geometry<f64> {
    let polygon = |rings: &Vec<Shell>| {
        let holes: Vec<&[(i64, i64)]> = rings[1..].iter().map(Vec::as_slice).collect();
        polygon(&rings[0], &holes)
    };
    MultiPolygon(parts.iter().map(polygon).collect()).into()
}

pub(super) fn shape() -> impl Strategy<Value = Geometry<f64>> {
    prop_oneof![
        parts().prop_map(|p| areas(&p)),
        vec(vec(place(), 0..8), 1..4).prop_map(|lines| MultiLineString(lines.iter().map(|l| line(l)).collect()).into()),
        vec(place(), 1..8)
            .prop_map(|points| MultiPoint(points.iter().map(|p| Point(lonlat(here(), *p))).collect()).into()),
    ]
}

fn picture_of(shapes: &[Geometry<f64>]) -> Picture {
    let features = shapes
        .iter()
        .enumerate()
        .map(|(i, s)| feature(&i.to_string(), s.clone()));
    draw(here(), no_buffer(), features)
}

fn frame() -> Frame {
    Frame::new(here(), no_buffer())
}

fn on_grid(ring: &[(i64, i64)]) -> Ring {
    ring.iter().map(|&(x, y)| GridPoint { x, y }).collect()
}

/// Twice the signed area, on our own.
fn doubled_area(ring: &[GridPoint]) -> i64 {
    let next = ring.iter().cycle().skip(1);
    ring.iter().zip(next).map(|(a, b)| a.x * b.y - b.x * a.y).sum()
}

/// How often edges wind around a point that is on none of them: crossings of a ray to the east.
fn winding(edges: impl Iterator<Item = (GridPoint, GridPoint)>, p: (f64, f64)) -> i64 {
    edges
        .map(|(a, b)| {
            let (ax, ay, bx, by) = (a.x as f64, a.y as f64, b.x as f64, b.y as f64);
            let (down, up) = (ay <= p.1 && by > p.1, by <= p.1 && ay > p.1);
            let crosses = (down || up) && ax + (p.1 - ay) / (by - ay) * (bx - ax) > p.0;
            i64::from(crosses) * (i64::from(down) - i64::from(up))
        })
        .sum()
}

fn edges(ring: &[GridPoint]) -> impl Iterator<Item = (GridPoint, GridPoint)> {
    ring.iter().copied().zip(ring.iter().copied().cycle().skip(1))
}

/// The rings of some parts, turned as the picture turns them, flat ones left out.
fn turned(parts: &[Vec<Shell>]) -> Vec<Ring> {
    let mut turned = Vec::new();
    for rings in parts {
        for (i, ring) in rings.iter().enumerate() {
            let mut ring = on_grid(ring);
            let area = doubled_area(&ring);
            if (area > 0) != (i == 0) {
                ring.reverse();
            }
            turned.extend((area != 0).then_some(ring));
        }
    }
    turned
}

fn far_from(edges: impl Iterator<Item = (GridPoint, GridPoint)>, p: (f64, f64)) -> bool {
    let point = |g: GridPoint| (g.x as f64, g.y as f64);
    edges.into_iter().all(|(a, b)| {
        let ((ax, ay), (bx, by)) = (point(a), point(b));
        let (dx, dy) = (bx - ax, by - ay);
        let length = dx * dx + dy * dy;
        let t = if length == 0.0 {
            0.0
        } else {
            (((p.0 - ax) * dx + (p.1 - ay) * dy) / length).clamp(0.0, 1.0)
        };
        (ax + t * dx - p.0).hypot(ay + t * dy - p.1) > 1.5
    })
}

/// Whether an edge can be replaced by a detour over `p` without a trace in the square: the triangle stays outside.
fn is_far_detour(a: (i64, i64), b: (i64, i64), p: (i64, i64)) -> bool {
    let beyond_a_side = [a, b, p].iter().all(|q| q.0 < 0)
        || [a, b, p].iter().all(|q| q.0 > 4096)
        || [a, b, p].iter().all(|q| q.1 < 0)
        || [a, b, p].iter().all(|q| q.1 > 4096);
    let side = |q: (i64, i64)| ((b.0 - a.0) * (q.1 - a.1) - (b.1 - a.1) * (q.0 - a.0)).signum();
    let corners = [(0, 0), (4096, 0), (0, 4096), (4096, 4096)];
    let behind = [1, -1]
        .into_iter()
        .any(|s| corners.iter().all(|c| side(*c) == s) && side(p) != s);
    beyond_a_side || behind
}

/// The width of a cell of a chessboard of eight by eight; it juts out over the tile on all sides.
const SIDE: i64 = 560;

fn corner(cell: usize) -> (i64, i64) {
    let cell = i64::try_from(cell).unwrap();
    (cell % 8 * SIDE - 100, cell / 8 * SIDE - 100)
}

fn holds(polygon: &Polygon, cell: usize) -> bool {
    let (x, y) = corner(cell);
    let p = (x as f64 + 200.5, y as f64 + 200.5);
    let rings = std::iter::once(&polygon.exterior).chain(&polygon.holes);
    let times = rings.map(|ring| winding(edges(ring), p)).sum::<i64>();
    assert!([0, 1].contains(&times));
    times == 1
}

/// Whether a rook gets everywhere.
fn is_connected(cells: &[usize]) -> bool {
    let mut reached: Vec<usize> = cells.first().copied().into_iter().collect();
    let mut next = 0;
    while next < reached.len() {
        let at = reached[next];
        let neighbours = cells.iter().filter(|c| {
            let (dx, dy) = ((at % 8).abs_diff(**c % 8), (at / 8).abs_diff(**c / 8));
            dx + dy == 1 && !reached.contains(c)
        });
        let neighbours: Vec<usize> = neighbours.copied().collect();
        reached.extend(neighbours);
        next += 1;
    }
    reached.len() == cells.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_outside_matters_but_winding(
        parts in parts(), detours in vec((place(), any::<prop::sample::Index>()), 0..6), outer in ring(),
    ) {
        let mut changed = parts.clone();
        for (over, index) in detours {
            let ring = &mut changed[0][0];
            let i = index.index(ring.len());
            let (a, b) = (ring[i], ring[(i + 1) % ring.len()]);
            if is_far_detour(a, b, over) {
                ring.insert(i + 1, over);
            }
        }
        // The way a ring is turned is a matter of the whole ring.
        let (before, after) = (doubled_area(&on_grid(&parts[0][0])), doubled_area(&on_grid(&changed[0][0])));
        prop_assume!(before.signum() == after.signum());
        changed.push(vec![outer.iter().map(|&(x, y)| (x.abs() + 4097, y)).collect()]);
        prop_assert_eq!(picture_of(&[areas(&parts)]), picture_of(&[areas(&changed)]));
    }

    #[test]
    fn first_vertex_direction_and_order_of_the_parts_do_not_matter(
        parts in parts(), turns in vec((any::<bool>(), 0..9usize), 9), order in Just((0..4usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut changed = parts.clone();
        for (ring, (reverse, by)) in changed.iter_mut().flatten().zip(turns) {
            let by = by % ring.len();
            ring.rotate_left(by);
            if reverse {
                ring.reverse();
            }
        }
        let changed: Vec<_> = order.iter().filter_map(|&i| changed.get(i).cloned()).collect();
        prop_assert_eq!(picture_of(&[areas(&parts)]), picture_of(&[areas(&changed)]));
    }

    #[test]
    fn rings_wind_as_often_as_their_source_does(parts in parts(), at in vec((0..4096i64, 0..4096i64), 20)) {
        let source = turned(&parts);
        let mut outline = Outline::new(frame());
        for rings in &parts {
            for (i, ring) in rings.iter().enumerate() {
                outline.add(&on_grid(ring), if i == 0 { Role::Shell } else { Role::Hole });
            }
        }
        let drawn = trace::rings(outline.closed());
        for ring in &drawn {
            let mut points = ring.clone();
            points.sort_unstable();
            points.dedup();
            prop_assert_eq!(points.len(), ring.len(), "a ring meets a point twice");
            prop_assert!(ring.len() > 2);
            prop_assert!(ring.iter().all(|p| frame().holds(*p)));
        }
        for (x, y) in at {
            let p = (x as f64 + 0.25, y as f64 + 0.125);
            if far_from(source.iter().flat_map(|r| edges(r)), p) {
                let expected = winding(source.iter().flat_map(|r| edges(r)), p);
                prop_assert_eq!(winding(drawn.iter().flat_map(|r| edges(r)), p), expected, "at {:?}", p);
            }
        }
    }

    /// Any set of cells of a chessboard, told cell by cell.
    #[test]
    fn polygons_are_the_connected_pieces_of_the_cells_they_are_made_of(cells in vec(any::<bool>(), 64)) {
        let part = |i: usize| vec![square(corner(i).0, corner(i).1, SIDE)];
        let filled: Vec<_> = (0..64).filter(|i| cells[*i]).map(part).collect();
        let picture = picture_of(&[areas(&filled)]);
        let polygons = picture.features().first().map_or(&[][..], |f| &f.areas);
        let mut n_held = vec![0; 64];
        for polygon in polygons {
            let held: Vec<usize> = (0..64).filter(|i| holds(polygon, *i)).collect();
            prop_assert!(is_connected(&held), "{:?} in {:?}", held, polygon);
            for i in held {
                n_held[i] += 1;
            }
        }
        prop_assert_eq!(n_held, cells.iter().map(|c| usize::from(*c)).collect::<Vec<_>>());
    }

    #[test]
    fn a_feature_that_does_not_meet_the_square_changes_nothing(
        shapes in vec(shape(), 0..4), outer in vec((4097..20_000i64, coordinate()), 3..8), down in any::<bool>(), kind in 0..3,
    ) {
        let outer: Shell = outer.into_iter().map(|(x, y)| if down { (y, x) } else { (-x, y) }).collect();
        let beyond: Geometry<f64> = match kind {
            0 => areas(&[vec![outer]]),
            1 => line(&outer).into(),
            _ => Point(lonlat(here(), outer[0])).into(),
        };
        let with: Vec<_> = shapes.iter().cloned().chain([beyond]).collect();
        prop_assert_eq!(picture_of(&shapes), picture_of(&with));
    }

    #[test]
    fn a_line_split_beyond_the_square_is_the_same_line(points in vec(place(), 2..8), at in 1..7usize) {
        let at = at.min(points.len() - 1);
        let mut points = points;
        points[at].0 = 4097 + points[at].0.abs();
        let whole: Geometry<f64> = line(&points).into();
        let split: Geometry<f64> = MultiLineString(vec![line(&points[at..]), line(&points[..=at])]).into();
        prop_assert_eq!(picture_of(&[whole]), picture_of(&[split]));
    }

    #[test]
    fn an_edge_and_its_reverse_are_cut_at_the_same_points(a in place(), b in place()) {
        let (a, b) = (on_grid(&[a])[0], on_grid(&[b])[0]);
        let reversed = clip::clip(&frame(), b, a).map(|(first, last)| (last, first));
        prop_assert_eq!(clip::clip(&frame(), a, b), reversed);
    }
}

/// What the renderer reads by must not miss what it would draw.
#[test]
fn the_reach_holds_the_square_and_half_a_unit_more() {
    for (z, x, y, fraction) in [
        (0, 0, 0, 0.0),
        (0, 0, 0, 1.0),
        (10, 582, 296, 0.3),
        (28, (1 << 28) - 1, 0, 0.015_625),
    ] {
        let (tile, buffer) = (TileId::new(z, x, y).unwrap(), Buffer::new(fraction).unwrap());
        let frame = Frame::new(tile, buffer);
        let reach = reach(tile, buffer);
        let corner = |x, y| frame.snap(Coord { x, y });
        let (low, high) = (corner(reach.west(), reach.north()), corner(reach.east(), reach.south()));
        assert_eq!((low.x, low.y), (frame.min - 1, frame.min - 1));
        assert_eq!((high.x, high.y), (frame.max + 1, frame.max + 1));
    }
}

#[test]
fn shapes_of_every_type_are_drawn() {
    let corners = (lonlat(here(), (10, 10)), lonlat(here(), (20, 20)));
    let rect: Geometry<f64> = geo_types::Rect::new(corners.0, corners.1).into();
    assert_eq!(picture_of(&[rect]), picture_of(&[areas(&[vec![square(10, 10, 10)]])]));
    let edge: Geometry<f64> = Line::new(corners.0, corners.1).into();
    assert_eq!(picture_of(&[edge]), picture_of(&[line(&[(10, 10), (20, 20)]).into()]));
}
