//! What a line draws in one tile: paths that end where the line leaves the closed square.

use super::{
    clip::clip,
    grid::{Frame, GridPoint},
};

/// Points that are drawn as a line, in the direction of the source; at least two, no two neighbours the same.
pub type Path = Vec<GridPoint>;

/// Cuts a line of snapped points at the square.
pub(super) fn cut(frame: &Frame, line: &[GridPoint], paths: &mut Vec<Path>) {
    let mut path = Path::new();
    for edge in line.windows(2).filter(|edge| edge[0] != edge[1]) {
        let Some((first, last)) = clip(frame, edge[0], edge[1]) else {
            continue; // The path ended when the line left the square.
        };
        if path.is_empty() {
            path.push(first);
        }
        if first != last {
            path.push(last);
        }
        if last != edge[1] {
            end(&mut path, paths);
        }
    }
    end(&mut path, paths);
}

fn end(path: &mut Path, paths: &mut Vec<Path>) {
    let path = std::mem::take(path);
    if path.len() > 1 {
        paths.push(path);
    }
}
