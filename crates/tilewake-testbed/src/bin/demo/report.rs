//! What the demo found, for people and for programs.

use std::{collections::HashMap, fmt};

use serde_json::json;

use crate::{
    area::LayerTile,
    edits::Kind,
    judge::{Judgement, OfKind},
};

/// The least that makes the demo worth its name.
const MIN_EDITS: u64 = 600;
const MIN_TILES: usize = 1500;

/// Everything that was found.
pub(crate) struct Findings {
    pub(crate) seed: u64,
    pub(crate) n_reads: u64,
    pub(crate) n_duplicates: u64,
    /// Whether the queues became empty.
    pub(crate) is_quiet: bool,
    /// Tiles in the cache.
    pub(crate) n_tiles: usize,
    /// Tiles in the cache of the server with slow renders, and how many of these renders a purge overtook.
    pub(crate) n_raced: usize,
    pub(crate) n_overtaken: usize,
    pub(crate) stale: Vec<LayerTile>,
    pub(crate) judgement: Judgement,
    /// Rows written, whether or not that came to an edit.
    pub(crate) n_rows: HashMap<Kind, u64>,
    /// From COMMIT to purge in milliseconds, sorted.
    pub(crate) times: HashMap<Kind, Vec<f64>>,
}

impl Findings {
    fn n_checked(&self) -> usize {
        self.n_tiles + self.n_raced
    }
}

/// The findings, and what is to be thought of them.
pub(crate) struct Report(Findings);

impl Report {
    pub(crate) fn new(findings: Findings) -> Self {
        Self(findings)
    }

    /// Whether all of it holds.
    pub(crate) fn holds(&self) -> bool {
        self.laws().iter().all(|(holds, _)| *holds)
    }

    /// What must hold, and what was found.
    fn laws(&self) -> Vec<(bool, String)> {
        let Self(found) = self;
        let judged = &found.judgement;
        let (n_lost, n_invented, n_repeated) = (judged.lost.len(), judged.invented.len(), judged.repeated.len());
        vec![
            (
                found.stale.is_empty() && found.n_tiles >= MIN_TILES,
                format!(
                    "{} of {} cached tiles differ from a fresh render",
                    found.stale.len(),
                    found.n_checked()
                ),
            ),
            (
                found.n_overtaken > 0,
                format!(
                    "{} old pictures were under way when a purge overtook them",
                    found.n_overtaken
                ),
            ),
            (
                n_lost + n_invented + n_repeated == 0 && judged.n_edits >= MIN_EDITS,
                format!(
                    "{} edits: {n_lost} lost, {n_invented} invented, {n_repeated} decided twice",
                    judged.n_edits
                ),
            ),
            (
                judged.n_overpurged + judged.n_missed == 0,
                format!(
                    "{} stale tiles in the journal: {} too many and {} too few by PostGIS' reckoning",
                    judged.n_purged, judged.n_overpurged, judged.n_missed
                ),
            ),
            (
                2 * judged.n_untouched >= found.n_tiles as u64,
                format!(
                    "{} of {} cached tiles were never purged",
                    judged.n_untouched, found.n_tiles
                ),
            ),
            (
                found.is_quiet,
                format!("the queues are {}", if found.is_quiet { "empty" } else { "not empty" }),
            ),
        ]
    }

    /// One object for programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        let Self(found) = self;
        let (judged, times) = (&found.judgement, self.all_times());
        json!({
            "edits": judged.n_edits,
            "events": judged.kinds.values().map(|of| of.n_events).sum::<u64>(),
            "duplicates": found.n_duplicates,
            "purged_tiles": judged.n_purged,
            "overpurged_tiles": judged.n_overpurged,
            "missed_tiles": judged.n_missed,
            "checked_tiles": found.n_checked(),
            "overtaken_renders": found.n_overtaken,
            "stale_tiles": found.stale.len(),
            "untouched_tiles": judged.n_untouched,
            "lost_edits": judged.lost.len(),
            "queues_empty": found.is_quiet,
            "p50_ms": percentile(&times, 50),
            "p99_ms": percentile(&times, 99),
            "seed": found.seed,
        })
    }

    fn all_times(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.0.times.values().flatten().copied().collect();
        times.sort_by(f64::total_cmp);
        times
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, kind: Kind) -> fmt::Result {
        let (none, no_times) = (OfKind::default(), Vec::new());
        let of = self.0.judgement.kinds.get(&kind).unwrap_or(&none);
        let times = self.0.times.get(&kind).unwrap_or(&no_times);
        let n_rows = self.0.n_rows.get(&kind).unwrap_or(&0);
        write!(f, "{kind:<42}{n_rows:>6}{:>8}", of.n_events)?;
        write!(f, "{:>10}{:>7}{:>6}{:>13}", of.in_order, of.jumps, of.late, of.n_stale)?;
        writeln!(
            f,
            "{:>9}{:>9}",
            shown(percentile(times, 50)),
            shown(percentile(times, 99))
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(found) = self;
        writeln!(
            f,
            "\n{:<42}  rows  events  in order  jumps  late  stale tiles   p50 ms   p99 ms",
            "edits"
        )?;
        for kind in Kind::ALL {
            self.row(f, kind)?;
        }
        let times = self.all_times();
        writeln!(
            f,
            "\nFrom COMMIT to purge: {} ms for half of the edits, {} ms for 99 in 100; {} reads meanwhile, {} repeated \
             events, seed {}.\n",
            shown(percentile(&times, 50)),
            shown(percentile(&times, 99)),
            found.n_reads,
            found.n_duplicates,
            found.seed
        )?;
        for (holds, what) in self.laws() {
            writeln!(f, "{}  {what}", if holds { "  ok  " } else { "FAILED" })?;
        }
        self.details(f)
    }
}

impl Report {
    /// The first few of what is wrong, to look into.
    fn details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ENOUGH: usize = 5;
        let Self(found) = self;
        for LayerTile { layer, tile } in found.stale.iter().take(ENOUGH) {
            writeln!(f, "        stale: {layer}/{tile}")?;
        }
        let judged = &found.judgement;
        for (what, ids) in [
            ("lost", &judged.lost),
            ("invented", &judged.invented),
            ("repeated", &judged.repeated),
        ] {
            for id in ids.iter().take(ENOUGH) {
                writeln!(f, "        {what}: {id}")?;
            }
        }
        for complaint in judged.complaints.iter().take(ENOUGH) {
            writeln!(f, "        {complaint}")?;
        }
        Ok(())
    }
}

/// The value that so many of a hundred do not exceed. `sorted` is.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).map(|value| (value * 10.0).round() / 10.0)
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(
            (percentile(&times, 50), percentile(&times, 99)),
            (Some(100.0), Some(198.0))
        );
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[3.0], 99), Some(3.0));
    }

    #[test]
    fn findings_that_lack_anything_do_not_hold() {
        let good = || Findings {
            seed: 1,
            n_reads: 1,
            n_duplicates: 0,
            is_quiet: true,
            n_tiles: 2000,
            n_raced: 50,
            n_overtaken: 50,
            stale: Vec::new(),
            judgement: Judgement {
                n_edits: 600,
                n_untouched: 1000,
                ..Judgement::default()
            },
            n_rows: HashMap::new(),
            times: HashMap::new(),
        };
        assert!(Report::new(good()).holds());
        let spoilt: [fn(&mut Findings); 8] = [
            |found| found.is_quiet = false,
            |found| found.n_tiles = 1499,
            |found| found.n_overtaken = 0,
            |found| found.judgement.n_untouched = 999,
            |found| found.judgement.n_edits = 599,
            |found| found.judgement.n_overpurged = 1,
            |found| found.judgement.n_missed = 1,
            |found| found.judgement.lost.push("roads/1@1.1".parse().unwrap()),
        ];
        for spoil in spoilt {
            let mut findings = good();
            spoil(&mut findings);
            assert!(!Report::new(findings).holds());
        }
    }
}
