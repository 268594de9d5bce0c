//! Random edits: vertices moved, added and taken away, rings turned and started elsewhere, parts that come, go and change
//! places.

use geo_types::{LineString, MultiPolygon, Polygon};
use proptest::{prelude::*, sample::Index};

use super::{Star, View, place, star};

/// What an edit does to one path, and to which vertex of it.
#[derive(Clone, Debug)]
pub(crate) enum Touch {
    Move((f64, f64)),
    Nudge((f64, f64)),
    Insert((f64, f64)),
    Remove,
    TurnRound,
    Nothing,
}

pub(crate) fn touch() -> impl Strategy<Value = Touch> {
    prop_oneof![
        place().prop_map(Touch::Move),
        place().prop_map(Touch::Nudge),
        place().prop_map(Touch::Insert),
        Just(Touch::Remove),
        Just(Touch::TurnRound),
        Just(Touch::Nothing),
    ]
}

pub(crate) fn touched(view: &View, path: &LineString<f64>, touch: &Touch, at: Index) -> LineString<f64> {
    let mut coords = path.0.clone();
    let at = at.index(coords.len());
    match touch {
        Touch::Move(place) => coords[at] = view.at(*place),
        Touch::Nudge((x, y)) => {
            let small = view.at((x / 100.0, y / 100.0));
            coords[at] = coords[at] + small - view.at((0.0, 0.0));
        }
        Touch::Insert(place) => coords.insert(at, view.at(*place)),
        Touch::Remove if coords.len() > 1 => drop(coords.remove(at)),
        Touch::TurnRound => coords.reverse(),
        Touch::Remove | Touch::Nothing => {}
    }
    coords.retain(|c| c.y.abs() <= 90.0);
    LineString(coords)
}

/// A ring without its repeated vertex, started at another one.
fn rotated(ring: &LineString<f64>, by: Index) -> LineString<f64> {
    let mut coords = ring.0.clone();
    coords.pop();
    let by = by.index(coords.len());
    coords.rotate_left(by);
    coords.into()
}

/// An edit of a multipolygon.
#[derive(Clone, Debug)]
pub(crate) enum AreaEdit {
    Shell(Touch, Index),
    OtherStart(Index),
    Hole(Touch, Index),
    FillHoles,
    Drop,
    Add(Star),
    Replace(Star),
    OtherOrder,
}

pub(crate) fn area_edit() -> impl Strategy<Value = AreaEdit> {
    let vertex = any::<Index>;
    prop_oneof![
        4 => (touch(), vertex()).prop_map(|(touch, at)| AreaEdit::Shell(touch, at)),
        2 => (touch(), vertex()).prop_map(|(touch, at)| AreaEdit::Hole(touch, at)),
        1 => vertex().prop_map(AreaEdit::OtherStart),
        1 => Just(AreaEdit::FillHoles),
        1 => Just(AreaEdit::Drop),
        1 => star().prop_map(AreaEdit::Add),
        1 => star().prop_map(AreaEdit::Replace),
        1 => Just(AreaEdit::OtherOrder),
    ]
}

pub(crate) fn edited(view: &View, areas: &MultiPolygon<f64>, part: Index, edit: &AreaEdit) -> MultiPolygon<f64> {
    let mut parts = areas.0.clone();
    let part = part.index(parts.len());
    let (shell, holes) = parts[part].clone().into_inner();
    match edit {
        AreaEdit::Shell(touch, at) => parts[part] = Polygon::new(touched(view, &shell, touch, *at), holes),
        AreaEdit::OtherStart(at) => parts[part] = Polygon::new(rotated(&shell, *at), holes),
        AreaEdit::Hole(touch, at) => {
            let holes = holes.iter().map(|hole| touched(view, hole, touch, *at)).collect();
            parts[part] = Polygon::new(shell, holes);
        }
        AreaEdit::FillHoles => parts[part] = Polygon::new(shell, vec![]),
        AreaEdit::Drop => drop(parts.remove(part)),
        AreaEdit::Add(star) => parts.push(view.star(star)),
        AreaEdit::Replace(star) => parts[part] = view.star(star),
        AreaEdit::OtherOrder => parts.reverse(),
    }
    MultiPolygon(parts)
}
