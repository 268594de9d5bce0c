//! Sets of tiles, as ranges of PMTiles tile ids.
//!
//! An aligned quadtree cell is one range a zoom, unions are merges, and any language with a PMTiles library can read
//! them. A set holds any number of tiles in memory that grows with its ranges only (I5).

use std::ops::Range;

use crate::{
    layer::Zooms,
    tile::{MAX_ZOOM, TileId, first_id},
};

/// A set of tiles.
///
/// Invariant: the ranges are not empty, sorted, and neither overlap nor touch; no id is beyond [`MAX_ZOOM`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TileSet {
    ranges: Vec<Range<u64>>,
}

/// Bytes that are no tile set.
#[derive(Debug, thiserror::Error)]
#[error("{0} at byte {1} of an encoded tile set")]
pub struct InvalidTileSet(&'static str, usize);

impl TileSet {
    /// The set without tiles.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every tile of these zooms.
    #[must_use]
    pub fn everything(zooms: Zooms) -> Self {
        Self {
            ranges: std::iter::once(first_id(zooms.min())..first_id(zooms.max() + 1)).collect(),
        }
    }

    /// The union of any ranges of ids, in any order; what lies beyond [`MAX_ZOOM`] is left out.
    #[must_use]
    pub fn from_ranges(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let end = first_id(MAX_ZOOM + 1);
        let mut ranges: Vec<_> = ranges
            .into_iter()
            .map(|r| r.start..r.end.min(end))
            .filter(|r| !r.is_empty())
            .collect();
        // A stable sort: it merges runs that are sorted already, which sets are.
        ranges.sort_by_key(|r| r.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Self { ranges: merged }
    }

    /// Adds ranges that come in order, each starting at or behind the end of the last one.
    pub(crate) fn append(&mut self, range: Range<u64>) {
        debug_assert!(range.start < range.end && range.end <= first_id(MAX_ZOOM + 1));
        match self.ranges.last_mut() {
            Some(last) if range.start <= last.end => {
                debug_assert!(range.start == last.end, "ranges come in order");
                last.end = range.end;
            }
            _ => self.ranges.push(range),
        }
    }

    /// The ranges of ids, sorted; they neither overlap nor touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Whether there is no tile in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many tiles there are.
    #[must_use]
    pub fn n_tiles(&self) -> u64 {
        self.ranges.iter().map(|r| r.end - r.start).sum()
    }

    /// Whether the tile is in the set.
    #[must_use]
    pub fn contains(&self, tile: TileId) -> bool {
        let id = tile.pmtiles_id();
        let after = self.ranges.partition_point(|r| r.start <= id);
        after > 0 && id < self.ranges[after - 1].end
    }

    /// The tiles, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = TileId> + '_ {
        self.ranges
            .iter()
            .cloned()
            .flatten()
            .filter_map(TileId::from_pmtiles_id)
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::union_all([self, other])
    }

    /// What is in any of the sets.
    #[must_use]
    pub fn union_all<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::from_ranges(sets.into_iter().flat_map(|set| set.ranges.iter().cloned()))
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut both = Self::new();
        while let (Some(l), Some(r)) = (left.peek(), right.peek()) {
            let common = l.start.max(r.start)..l.end.min(r.end);
            if !common.is_empty() {
                both.ranges.push(common);
            }
            if l.end <= r.end {
                left.next()
            } else {
                right.next()
            };
        }
        both
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut holes = other.ranges.iter().peekable();
        let mut rest = Self::new();
        for range in &self.ranges {
            let mut start = range.start;
            while let Some(hole) = holes.next_if(|hole| hole.end <= range.end) {
                if start < hole.start {
                    rest.ranges.push(start..hole.start);
                }
                start = start.max(hole.end);
            }
            let end = holes.peek().map_or(range.end, |hole| hole.start.min(range.end));
            if start < end {
                rest.ranges.push(start..end);
            }
        }
        rest
    }

    /// How many tiles there are at each zoom that has any, shallowest first.
    #[must_use]
    pub fn count_by_zoom(&self) -> Vec<(u8, u64)> {
        let mut ranges = self.ranges.iter().peekable();
        let mut counts = Vec::new();
        for zoom in 0..=MAX_ZOOM {
            let (first, last) = (first_id(zoom), first_id(zoom + 1));
            let mut count = 0;
            while let Some(range) = ranges.peek().filter(|range| range.start < last) {
                count += range.end.min(last).saturating_sub(range.start.max(first));
                if range.end > last {
                    break;
                }
                ranges.next();
            }
            if count > 0 {
                counts.push((zoom, count));
            }
        }
        counts
    }

    /// The smallest set of at most `max_ranges` ranges, and at least one, that holds this one: the narrowest gaps are
    /// filled.
    #[must_use]
    pub fn coarsen(&self, max_ranges: usize) -> Self {
        let n_filled = self.ranges.len().saturating_sub(max_ranges.max(1));
        if n_filled == 0 {
            return self.clone();
        }
        let gap = |i: usize| self.ranges[i].start - self.ranges[i - 1].end;
        let mut gaps: Vec<usize> = (1..self.ranges.len()).collect();
        gaps.select_nth_unstable_by_key(n_filled - 1, |&i| (gap(i), i));
        let mut is_filled = vec![false; self.ranges.len()];
        gaps[..n_filled].iter().for_each(|&i| is_filled[i] = true);
        let mut coarse = Self::new();
        for (range, is_filled) in self.ranges.iter().zip(is_filled) {
            match coarse.ranges.last_mut().filter(|_| is_filled) {
                Some(last) => last.end = range.end,
                None => coarse.ranges.push(range.clone()),
            }
        }
        coarse
    }

    /// Writes the set as varints (LEB128): for every range, the distance from the end of the last one, and its length.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.ranges.len() * 4);
        let mut end = 0;
        for range in &self.ranges {
            put_varint(&mut bytes, range.start - end);
            put_varint(&mut bytes, range.end - range.start);
            end = range.end;
        }
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidTileSet> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let (mut at, mut end) = (0, 0u64);
        while at < bytes.len() {
            let from = at;
            let gap = take_varint(bytes, &mut at)?;
            let length = take_varint(bytes, &mut at)?;
            let start = end.checked_add(gap).ok_or(InvalidTileSet("an overflow", from))?;
            end = start.checked_add(length).ok_or(InvalidTileSet("an overflow", from))?;
            if length == 0 || (gap == 0 && !ranges.is_empty()) {
                return Err(InvalidTileSet("an empty gap or range", from));
            }
            if end > first_id(MAX_ZOOM + 1) {
                return Err(InvalidTileSet("an id beyond the deepest zoom", from));
            }
            ranges.push(start..end);
        }
        Ok(Self { ranges })
    }
}

impl FromIterator<TileId> for TileSet {
    fn from_iter<T: IntoIterator<Item = TileId>>(tiles: T) -> Self {
        Self::from_ranges(tiles.into_iter().map(TileId::pmtiles_id).map(|id| id..id + 1))
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap_or_default());
}

fn take_varint(bytes: &[u8], at: &mut usize) -> Result<u64, InvalidTileSet> {
    let from = *at;
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at).ok_or(InvalidTileSet("a cut-off number", from))?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(InvalidTileSet("a number of more than 64 bits", from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[Range<u64>]) -> TileSet {
        TileSet::from_ranges(ranges.iter().cloned())
    }

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(set(&[5..7, 0..2, 2..4, 6..9]).ranges(), [0..4, 5..9]);
    }

    #[test]
    fn an_encoded_set_reads_back() {
        for ranges in [set(&[]), set(&[0..1]), set(&[3..4, 1000..500_000, 1 << 40..1 << 41])] {
            assert_eq!(TileSet::decode(&ranges.encode()).unwrap(), ranges);
        }
    }

    #[test]
    fn bytes_that_are_no_set_are_refused() {
        for bytes in [
            &[0x80][..],
            &[1],
            &[1, 0],
            &[1, 1, 0, 1],
            &[0xff; 20],
            &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert!(TileSet::decode(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_set_holds_its_tiles_and_no_others() {
        let tiles: Vec<_> = [(0, 0, 0), (3, 7, 1), (3, 7, 2)]
            .map(|(z, x, y)| TileId::new(z, x, y).unwrap())
            .into();
        let set: TileSet = tiles.iter().copied().collect();
        assert_eq!(set.n_tiles(), 3);
        assert!(tiles.iter().all(|tile| set.contains(*tile)));
        assert!(!set.contains(TileId::new(3, 0, 0).unwrap()));
        assert_eq!(set.iter().count(), 3);
    }
}
