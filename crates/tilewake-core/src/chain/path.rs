//! A line or ring before an edit beside the one after it, and the stretch in which they differ.

use std::ops::Range;

use geo_types::Coord;

use super::view::{Place, View};
use crate::mercator::project;

/// Before or after the edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

impl Side {
    /// What is there afterwards counts up, what was there before counts down.
    pub(super) fn count(self) -> i64 {
        match self {
            Self::Before => -1,
            Self::After => 1,
        }
    }
}

/// A path, projected to the unit square.
#[derive(Debug)]
pub(super) struct Path {
    vertices: Vec<(f64, f64)>,
}

impl Path {
    pub(super) fn of(coords: &[Coord<f64>]) -> Self {
        Self {
            vertices: coords.iter().map(|c| project(c.x, c.y)).collect(),
        }
    }

    pub(super) fn vertices(&self) -> &[(f64, f64)] {
        &self.vertices
    }

    pub(super) fn places(&self, view: View) -> impl Iterator<Item = Place> {
        self.vertices.iter().map(move |vertex| view.place(*vertex))
    }
}

/// A path before the edit and what is taken for the same path after it; either may be missing.
#[derive(Debug)]
pub(super) struct Pair {
    before: Option<Path>,
    after: Option<Path>,
    /// How many vertices are the same at the start of both, and at the end of both.
    n_first: usize,
    n_last: usize,
}

impl Pair {
    pub(super) fn new(before: Option<&[Coord<f64>]>, after: Option<&[Coord<f64>]>) -> Self {
        let (b, a) = (before.unwrap_or_default(), after.unwrap_or_default());
        let shorter = b.len().min(a.len());
        let n_first = b.iter().zip(a).take_while(|(b, a)| b == a).count();
        let n_last = b.iter().rev().zip(a.iter().rev()).take_while(|(b, a)| b == a).count();
        Self {
            before: before.map(Path::of),
            after: after.map(Path::of),
            n_first,
            n_last: n_last.min(shorter - n_first),
        }
    }

    pub(super) fn before(&self) -> Option<&Path> {
        self.before.as_ref()
    }

    pub(super) fn after(&self) -> Option<&Path> {
        self.after.as_ref()
    }

    /// Whether the two paths are one.
    pub(super) fn is_the_same(&self) -> bool {
        let is_all = |path: &Option<Path>| path.as_ref().is_some_and(|path| path.vertices.len() == self.n_first);
        is_all(&self.before) && is_all(&self.after)
    }

    pub(super) fn both(&self) -> impl Iterator<Item = &Path> {
        self.before.iter().chain(&self.after)
    }

    /// Each path with its side.
    pub(super) fn sides(&self) -> impl Iterator<Item = (&Path, Side)> {
        let before = self.before.iter().map(|path| (path, Side::Before));
        before.chain(self.after.iter().map(|path| (path, Side::After)))
    }

    /// The vertices of each path that can look different in a view: those that differ, and so many of their neighbours
    /// that two places are seen on either side, because a joint reaches to the next place.
    pub(super) fn stretches(&self, view: View) -> impl Iterator<Item = (&Path, Side, Range<usize>)> {
        self.sides().map(move |(path, side)| {
            let n = path.vertices.len();
            let place = |i: usize| view.place(path.vertices[i]);
            let changes = |range: Range<usize>| range.filter(move |&i| place(i) != place(i - 1));
            let start = changes(1..self.n_first).next_back().map_or(0, |i| i - 1);
            let end = changes(n - self.n_last + 1..n).next().map_or(n, |i| i + 1);
            (path, side, start..end)
        })
    }
}
