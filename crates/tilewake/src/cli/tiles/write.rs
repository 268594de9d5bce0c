//! The forms in which tiles are written.

use std::io::{self, Write};

use tilewake_core::{mercator::unproject, tile::TileId, tile_set::TileSet};

/// One `z/x/y` a line, as tools that expire tiles read it.
pub(super) fn xyz(tiles: &TileSet, out: &mut impl Write) -> io::Result<()> {
    tiles.iter().try_for_each(|tile| writeln!(out, "{tile}"))
}

/// The first and the last PMTiles tile id of a range a line.
pub(super) fn ranges(tiles: &TileSet, out: &mut impl Write) -> io::Result<()> {
    let mut ranges = tiles.ranges().iter();
    ranges.try_for_each(|range| writeln!(out, "{} {}", range.start, range.end - 1))
}

/// A GeoJSON collection of the tiles' outlines, without their buffers.
pub(super) fn geojson(tiles: &TileSet, out: &mut impl Write) -> io::Result<()> {
    write!(out, r#"{{"type":"FeatureCollection","features":["#)?;
    for (i, tile) in tiles.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let (z, x, y) = (tile.z(), tile.x(), tile.y());
        let ring = outline(tile).map(|(lon, lat)| format!("[{lon},{lat}]")).join(",");
        write!(
            out,
            "{comma}\n{}{}",
            format_args!(r#"{{"type":"Feature","id":"{tile}","properties":{{"z":{z},"x":{x},"y":{y}}},"#),
            format_args!(r#""geometry":{{"type":"Polygon","coordinates":[[{ring}]]}}}}"#),
        )?;
    }
    writeln!(out, "\n]}}")
}

/// Counterclockwise from the north-western corner, as RFC 7946 asks for.
fn outline(tile: TileId) -> [(f64, f64); 5] {
    let n = f64::from(1u32 << tile.z());
    let corner = |dx: u32, dy: u32| unproject(f64::from(tile.x() + dx) / n, f64::from(tile.y() + dy) / n);
    [(0, 0), (0, 1), (1, 1), (1, 0), (0, 0)].map(|(dx, dy)| corner(dx, dy))
}

/// A table by zoom: the stale tiles, and how many of them the feature enters, leaves, and is drawn in before and after.
pub(super) fn counts(stale: &TileSet, before: &TileSet, after: &TileSet, out: &mut impl Write) -> io::Result<()> {
    let entered = stale.intersection(&after.difference(before));
    let left = stale.intersection(&before.difference(after));
    let kept = stale.intersection(&before.intersection(after));
    let columns = [stale, &entered, &left, &kept];
    writeln!(
        out,
        "{:<5} {:>12} {:>12} {:>12} {:>12}",
        "zoom", "stale", "entered", "left", "kept"
    )?;
    let by_zoom = columns.map(TileSet::count_by_zoom);
    for &(zoom, _) in &by_zoom[0] {
        let count = |counts: &[(u8, u64)]| counts.iter().find(|(z, _)| *z == zoom).map_or(0, |(_, n)| *n);
        line(out, &zoom.to_string(), by_zoom.each_ref().map(|counts| count(counts)))?;
    }
    line(out, "all", columns.map(TileSet::n_tiles))
}

fn line(out: &mut impl Write, name: &str, [stale, entered, left, kept]: [u64; 4]) -> io::Result<()> {
    writeln!(out, "{name:<5} {stale:>12} {entered:>12} {left:>12} {kept:>12}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn set(tiles: &[(u8, u32, u32)]) -> TileSet {
        tiles.iter().map(|&(z, x, y)| TileId::new(z, x, y).unwrap()).collect()
    }

    fn check(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>, expected: &Expect) {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        expected.assert_eq(&String::from_utf8(out).unwrap());
    }

    #[test]
    fn tiles_are_written_as_lines_and_as_ranges() {
        let tiles = set(&[(0, 0, 0), (1, 0, 0), (1, 1, 0)]);
        check(
            |out| xyz(&tiles, out),
            &expect![[r"
            0/0/0
            1/0/0
            1/1/0
        "]],
        );
        check(
            |out| ranges(&tiles, out),
            &expect![[r"
            0 1
            4 4
        "]],
        );
    }

    #[test]
    fn outlines_are_geojson() {
        let mut out = Vec::new();
        geojson(&set(&[(1, 1, 0), (2, 3, 3)]), &mut out).unwrap();
        let read: geojson::FeatureCollection = String::from_utf8(out).unwrap().parse().unwrap();
        assert_eq!(read.features.len(), 2);
        assert_eq!(read.features[0].property("z").unwrap(), 1);
        let outline = geo_types::Geometry::<f64>::try_from(read.features[0].geometry.clone().unwrap()).unwrap();
        let geo_types::Geometry::Polygon(outline) = outline else {
            panic!("no polygon")
        };
        assert!(outline.exterior().0.contains(&(180.0, 0.0).into()));
    }

    #[test]
    fn a_move_is_counted_as_tiles_entered_left_and_kept() {
        let before = set(&[(0, 0, 0), (1, 0, 0), (2, 0, 0)]);
        let after = set(&[(0, 0, 0), (1, 0, 0), (2, 1, 0), (2, 1, 1)]);
        check(
            |out| counts(&before.union(&after), &before, &after, out),
            &expect![[r"
                zoom         stale      entered         left         kept
                0                1            0            0            1
                1                1            0            0            1
                2                3            2            1            0
                all              5            2            1            2
            "]],
        );
    }
}
