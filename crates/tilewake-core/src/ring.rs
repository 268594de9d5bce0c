//! How large a ring is, and whether snapping its vertices to a grid can turn it inside out.

/// The size of a ring, in whatever its coordinates are in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// Negative if it runs the way that holes do in a picture.
    pub(crate) doubled_area: f64,
    /// The sum of the edges' extents along both axes.
    length: f64,
    n_edges: usize,
    /// The larger of width and height.
    extent: f64,
}

impl Measure {
    /// Measures a ring whose last vertex is its first.
    pub(crate) fn of(ring: &[(f64, f64)]) -> Self {
        let (x, y) = ring.first().copied().unwrap_or_default();
        let mut measure = Self {
            doubled_area: 0.0,
            length: 0.0,
            n_edges: ring.len(),
            extent: extent(ring.iter().map(|p| p.0)).max(extent(ring.iter().map(|p| p.1))),
        };
        for ends in ring.windows(2) {
            let ((ax, ay), (bx, by)) = (ends[0], ends[1]);
            measure.doubled_area += (ax - x) * (by - y) - (bx - x) * (ay - y);
            measure.length += (bx - ax).abs() + (by - ay).abs();
        }
        measure
    }

    /// Whether no snapping to a grid turns the ring. Vertices move by half a unit along either axis, which changes the
    /// doubled area by no more than the length and half a unit for every edge; and rounding errors.
    pub(crate) fn is_settled(&self, unit: f64) -> bool {
        let (area, length) = (self.doubled_area.abs() / (unit * unit), self.length / unit);
        area > length + self.n_edges as f64 + 1e-12 * length * length
    }

    /// Whether no grid turns the ring on which one of its tiles, 4096 units wide, fits between the ring's edges: such a
    /// tile is no wider than the ring.
    pub(crate) fn is_settled_around_tiles(&self) -> bool {
        self.extent > 0.0 && self.is_settled(self.extent / 4096.0)
    }
}

fn extent(coordinates: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = coordinates.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), c| {
        (low.min(c), high.max(c))
    });
    high - low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_settled(ring: &[(f64, f64)]) -> bool {
        Measure::of(ring).is_settled_around_tiles()
    }

    #[test]
    fn rings_as_they_should_be_are_settled_however_small() {
        let triangle = [(0.5, 0.5), (0.5 + 1e-9, 0.5), (0.5, 0.5 + 1e-9), (0.5, 0.5)];
        assert!(is_settled(&triangle));
        assert!(is_settled(&triangle.map(|(x, y)| (y, x))));
        assert!(!Measure::of(&triangle).is_settled(1e-9));
    }

    #[test]
    fn rings_whose_lobes_weigh_the_same_are_not() {
        assert!(!is_settled(&[
            (0.0, 0.0),
            (1.0, 1.0),
            (0.0, 1.0),
            (1.0, 0.0),
            (0.0, 0.0)
        ]));
        assert!(!is_settled(&[
            (0.0, 0.0),
            (1.0, 1.0),
            (0.0, 1.0),
            (1.0, 1e-4),
            (0.0, 0.0)
        ]));
        assert!(!is_settled(&[(0.0, 0.0), (1.0, 0.0), (0.0, 0.0)]));
        assert!(!is_settled(&[]));
    }
}
