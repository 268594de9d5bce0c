//! Counting what is there after an edit against what was there before.

/// Things counted: up for those after the edit, down for those before it.
#[derive(Debug)]
pub(super) struct Tally<const N: usize> {
    counted: Vec<([u64; N], i64)>,
}

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Self { counted: Vec::new() }
    }
}

impl<const N: usize> Tally<N> {
    pub(super) fn add(&mut self, key: [u64; N], count: i64) {
        self.counted.push((key, count));
    }

    /// Sums up: what is left of everything, where anything is.
    pub(super) fn left(mut self) -> impl Iterator<Item = ([u64; N], i64)> {
        self.counted.sort_unstable_by_key(|counted| counted.0);
        let mut kept = 0;
        for i in 0..self.counted.len() {
            let (key, count) = self.counted[i];
            if kept > 0 && self.counted[kept - 1].0 == key {
                self.counted[kept - 1].1 = self.counted[kept - 1].1.wrapping_add(count);
            } else {
                self.counted[kept] = (key, count);
                kept += 1;
            }
        }
        self.counted.truncate(kept);
        self.counted.into_iter().filter(|(_, count)| *count != 0)
    }

    /// Whether something was counted more than once with the same sign.
    pub(super) fn has_repeats(&mut self) -> bool {
        self.counted.sort_unstable();
        self.counted.windows(2).any(|pair| pair[0] == pair[1])
    }
}
