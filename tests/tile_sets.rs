//! Tile sets against the plain idea of a set: a `BTreeSet` of tile numbers.

use std::{collections::BTreeSet, ops::Range};

use proptest::{collection::vec, prelude::*};
use tilewake_core::{
    tile::{MAX_ZOOM, TileId, first_id},
    tile_set::TileSet,
};

/// Ranges around the first few zooms' borders: small enough to touch, overlap and nest.
fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
    vec(
        (0u64..400, 0u64..30).prop_map(|(start, length)| start..start + length),
        0..12,
    )
}

fn plain(ranges: &[Range<u64>]) -> BTreeSet<u64> {
    ranges.iter().cloned().flatten().collect()
}

fn set(ranges: &[Range<u64>]) -> TileSet {
    TileSet::from_ranges(ranges.iter().cloned())
}

/// The numbers in a set, after checking its invariant.
fn numbers(set: &TileSet) -> BTreeSet<u64> {
    assert!(set.ranges().iter().all(|range| !range.is_empty()));
    assert!(
        set.ranges().windows(2).all(|pair| pair[0].end < pair[1].start),
        "{set:?}"
    );
    plain(set.ranges())
}

proptest! {
    #[test]
    fn sets_combine_like_plain_sets(a in ranges(), b in ranges(), c in ranges()) {
        let (pa, pb, pc) = (plain(&a), plain(&b), plain(&c));
        let (a, b, c) = (set(&a), set(&b), set(&c));
        prop_assert_eq!(numbers(&a), pa.clone());
        prop_assert_eq!(numbers(&a.union(&b)), &pa | &pb);
        prop_assert_eq!(numbers(&a.intersection(&b)), &pa & &pb);
        prop_assert_eq!(numbers(&a.difference(&b)), &pa - &pb);
        prop_assert_eq!(numbers(&TileSet::union_all([&a, &b, &c])), &(&pa | &pb) | &pc);
    }

    #[test]
    fn tiles_are_counted_by_zoom(ranges in ranges()) {
        let (plain, set) = (plain(&ranges), set(&ranges));
        let zoom = |id: &u64| TileId::from_pmtiles_id(*id).unwrap().z();
        let expected: Vec<_> = (0..=MAX_ZOOM)
            .map(|z| (z, plain.iter().filter(|id| zoom(id) == z).count() as u64))
            .filter(|(_, count)| *count > 0)
            .collect();
        prop_assert_eq!(set.count_by_zoom(), expected);
        prop_assert_eq!(set.n_tiles(), plain.len() as u64);
        prop_assert!(set.iter().map(TileId::pmtiles_id).eq(plain));
    }

    #[test]
    fn a_coarser_set_holds_the_finer_and_no_range_more_than_asked(ranges in ranges(), max_ranges in 0usize..8) {
        let set = set(&ranges);
        let coarse = set.coarsen(max_ranges);
        prop_assert!(numbers(&set).is_subset(&numbers(&coarse)));
        prop_assert!(coarse.ranges().len() <= max_ranges.max(1));
        prop_assert!(coarse.ranges().len() == set.ranges().len().min(max_ranges.max(1)));
        let mut gaps: Vec<_> = set.ranges().windows(2).map(|pair| pair[1].start - pair[0].end).collect();
        gaps.sort_unstable();
        let filled = set.ranges().len() - coarse.ranges().len();
        prop_assert_eq!(coarse.n_tiles() - set.n_tiles(), gaps[..filled].iter().sum::<u64>());
    }

    #[test]
    fn a_set_reads_back_from_its_bytes(starts in vec((0u64..first_id(MAX_ZOOM + 1), 1u64..1 << 40), 0..20)) {
        let set = TileSet::from_ranges(starts.into_iter().map(|(start, length)| start..start + length));
        prop_assert_eq!(TileSet::decode(&set.encode()).unwrap(), set);
    }

    #[test]
    fn bytes_never_read_as_a_set_that_breaks_its_invariant(bytes in vec(any::<u8>(), 0..40)) {
        if let Ok(set) = TileSet::decode(&bytes) {
            prop_assert!(set.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(set.ranges().last().is_none_or(|last| last.end <= first_id(MAX_ZOOM + 1)));
        }
    }
}
