//! Which edits the demo makes: every kind there is, on features spread evenly over the whole map.
//!
//! Few features are edited often, rather than many once: caches are for maps most of which stays as it is.

use std::fmt;

use anyhow::{Result, ensure};
use sqlx::{AssertSqlSafe, PgConnection, Row};
use tilewake_core::route::RoutingKey;

use crate::tables::{TABLES, Table};

/// A kind of edit, as the report has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    OlderThanLayer,
    AcrossTiles,
    AcrossCells,
    Reshaped,
    Attributes,
    Inserted,
    Deleted,
    DeletedAndInserted,
    Burst,
    Bulk,
    DuringRenders,
    OnlyTouched,
    RolledBack,
}

impl Kind {
    /// In the order of the report.
    pub(crate) const ALL: [Self; 13] = [
        Self::OlderThanLayer,
        Self::AcrossTiles,
        Self::AcrossCells,
        Self::Reshaped,
        Self::Attributes,
        Self::Inserted,
        Self::Deleted,
        Self::DeletedAndInserted,
        Self::Burst,
        Self::Bulk,
        Self::DuringRenders,
        Self::OnlyTouched,
        Self::RolledBack,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OlderThanLayer => "first edit of a row older than its layer",
            Self::AcrossTiles => "move across tiles",
            Self::AcrossCells => "move across H3 cells",
            Self::Reshaped => "reshape",
            Self::Attributes => "attributes",
            Self::Inserted => "insert",
            Self::Deleted => "delete",
            Self::DeletedAndInserted => "delete and insert again",
            Self::Burst => "burst on one feature",
            Self::Bulk => "bulk update",
            Self::DuringRenders => "while slow renders are under way",
            Self::OnlyTouched => "touched, nothing shown changed",
            Self::RolledBack => "rolled back",
        }
    }

    /// The kind that is called so.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What one statement does to a feature. Lengths are metres of Web Mercator: about half a metre on the ground here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    Shift(f64, f64),
    Scale(f64),
    Rename(String),
    /// Makes the name longer.
    Grow,
    Touch,
    Delete,
    /// Puts back what was deleted.
    InsertAgain,
    /// Makes a feature around a place.
    Insert(f64, f64),
}

/// One transaction: statements on the same features.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// The keys, as text.
    pub(crate) ids: Vec<String>,
    pub(crate) edits: Vec<Edit>,
}

/// Everything one writer does, in order. No two writers touch the same feature, so that the demo itself can count versions.
pub(crate) struct Plan {
    pub(crate) table: &'static Table,
    pub(crate) steps: Vec<Step>,
}

/// A feature to edit.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    table: &'static Table,
    id: String,
    /// Its centre, in metres of Web Mercator.
    x: f64,
    y: f64,
    cell: Option<RoutingKey>,
}

/// Chooses small valid features, at most one of a layer from each cell of a grid over the map.
pub(crate) async fn choose(connection: &mut PgConnection) -> Result<Vec<Chosen>> {
    let mut pool = Vec::new();
    for table in &TABLES {
        let before = pool.len();
        for row in sqlx::query(AssertSqlSafe(choice(table.layer)))
            .fetch_all(&mut *connection)
            .await?
        {
            let (lon, lat) = (row.try_get("lon")?, row.try_get("lat")?);
            let (id, x, y) = (row.try_get("id")?, row.try_get("x")?, row.try_get("y")?);
            pool.push(Chosen {
                table,
                id,
                x,
                y,
                cell: RoutingKey::of_point(lon, lat),
            });
        }
        ensure!(
            pool.len() > before + 2 * ROLES,
            "too few features of {} can be edited",
            table.layer
        );
    }
    Ok(pool)
}

fn choice(table: &str) -> String {
    format!(
        "WITH place AS (
            SELECT id::text, ST_Transform(geom, 3857) AS shape, ST_PointOnSurface(geom) AS point FROM {table}
            WHERE ST_IsValid(geom)
        ), small AS (
            SELECT id, ST_X(c) AS x, ST_Y(c) AS y, ST_X(p) AS lon, ST_Y(p) AS lat
            FROM place, ST_Centroid(shape) AS c, ST_Transform(point, 4326) AS p
            WHERE greatest(ST_XMax(shape) - ST_XMin(shape), ST_YMax(shape) - ST_YMin(shape)) < 100
        ), box AS (
            SELECT min(x) - 1 AS west, max(x) + 1 AS east, min(y) - 1 AS south, max(y) + 1 AS north FROM small
        )
        SELECT DISTINCT ON (width_bucket(x, west, east, 6), width_bucket(y, south, north, 7)) id, x, y, lon, lat
        FROM small, box ORDER BY width_bucket(x, west, east, 6), width_bucket(y, south, north, 7), id"
    )
}

/// How many different things happen to features; each feature gets one of them, after its first edit.
const ROLES: usize = 7;

/// Plans what two writers a layer do, each with every other feature of it.
pub(crate) fn plan(pool: &[Chosen], random: &mut fastrand::Rng) -> Vec<Plan> {
    let mut plans = Vec::new();
    for table in &TABLES {
        let features: Vec<_> = pool.iter().filter(|chosen| chosen.table.layer == table.layer).collect();
        for writer in 0..2 {
            let own: Vec<_> = features.iter().copied().skip(writer).step_by(2).collect();
            let mut queues: Vec<Vec<Step>> = own
                .iter()
                .enumerate()
                .map(|(n, chosen)| life(chosen, n % ROLES, pool, random))
                .collect();
            queues.extend(
                own.iter()
                    .step_by(2)
                    .enumerate()
                    .map(|(n, near)| newcomer(near, 2 * n + writer)),
            );
            let mut steps = shuffle(queues, random);
            let half = steps.len() / 2;
            steps.insert(half, bulk(&own));
            plans.push(Plan { table, steps });
        }
    }
    plans
}

/// An edit of one feature a layer that everybody sees, and where these are: layer, and metres of Web Mercator.
pub(crate) fn one_each(pool: &[Chosen]) -> (Vec<Plan>, Vec<(&'static str, f64, f64)>) {
    let chosen: Vec<_> = TABLES
        .iter()
        .filter_map(|table| pool.iter().find(|c| c.table.layer == table.layer))
        .collect();
    let plan = |chosen: &&Chosen| {
        let step = Step {
            kind: Kind::DuringRenders,
            ids: vec![chosen.id.clone()],
            edits: vec![Edit::Grow],
        };
        Plan {
            table: chosen.table,
            steps: vec![step],
        }
    };
    (
        chosen.iter().map(plan).collect(),
        chosen
            .iter()
            .map(|chosen| (chosen.table.layer, chosen.x, chosen.y))
            .collect(),
    )
}

/// What happens to a feature, in order.
fn life(chosen: &Chosen, role: usize, pool: &[Chosen], random: &mut fastrand::Rng) -> Vec<Step> {
    let one = |kind, edits: Vec<Edit>| Step {
        kind,
        ids: vec![chosen.id.clone()],
        edits,
    };
    let mut steps = vec![one(Kind::OlderThanLayer, vec![Edit::Shift(6.0, -4.0)])];
    let there_and_back = |x: f64, y: f64| [Edit::Shift(x, y), Edit::Shift(-x, -y)];
    match role {
        0 | 1 => {
            let shifts = there_and_back(180.0, -170.0).into_iter().cycle().take(6);
            steps.extend(shifts.map(|shift| one(Kind::AcrossTiles, vec![shift])));
        }
        2 => {
            let (x, y) = elsewhere(chosen, pool, random);
            let shifts = there_and_back(x, y).into_iter().cycle().take(6);
            steps.extend(shifts.map(|shift| one(Kind::AcrossCells, vec![shift])));
        }
        3 => {
            let scales = [0.7, 1.0 / 0.7].into_iter().cycle().take(8);
            steps.extend(scales.map(|factor| one(Kind::Reshaped, vec![Edit::Scale(factor)])));
        }
        4 => steps.extend((0..6).map(|n| one(Kind::Attributes, vec![Edit::Rename(format!("Katu {n}"))]))),
        5 => {
            steps.push(one(Kind::DeletedAndInserted, vec![Edit::Delete]));
            steps.push(one(Kind::DeletedAndInserted, vec![Edit::InsertAgain]));
            // And in one transaction.
            steps.extend((0..2).map(|_| one(Kind::DeletedAndInserted, vec![Edit::Delete, Edit::InsertAgain])));
        }
        _ => {
            let shifts = there_and_back(20.0, 10.0).into_iter().cycle().take(16);
            steps.extend(shifts.map(|shift| one(Kind::Burst, vec![shift])));
        }
    }
    steps.extend((0..2).map(|_| one(Kind::OnlyTouched, vec![Edit::Touch])));
    steps.push(one(Kind::RolledBack, vec![Edit::Shift(400.0, 400.0)]));
    steps
}

/// The way to a feature in another H3 cell.
fn elsewhere(chosen: &Chosen, pool: &[Chosen], random: &mut fastrand::Rng) -> (f64, f64) {
    let others: Vec<_> = pool.iter().filter(|other| other.cell != chosen.cell).collect();
    random
        .choice(others)
        .map_or((2000.0, 2000.0), |other| (other.x - chosen.x, other.y - chosen.y))
}

/// A new feature near another; every second one goes again.
fn newcomer(near: &Chosen, number: usize) -> Vec<Step> {
    let id = near.table.new_id(number);
    let step = |kind, edit| Step {
        kind,
        ids: vec![id.clone()],
        edits: vec![edit],
    };
    let mut steps = vec![step(Kind::Inserted, Edit::Insert(near.x + 15.0, near.y + 15.0))];
    if number % 4 < 2 {
        steps.push(step(Kind::Deleted, Edit::Delete));
    }
    steps
}

fn bulk(own: &[&Chosen]) -> Step {
    let ids = own.iter().map(|chosen| chosen.id.clone()).collect();
    Step {
        kind: Kind::Bulk,
        ids,
        edits: vec![Edit::Rename("Yhteinen nimi".to_owned())],
    }
}

/// Interleaves the queues at random; a burst stays together.
fn shuffle(mut queues: Vec<Vec<Step>>, random: &mut fastrand::Rng) -> Vec<Step> {
    for queue in &mut queues {
        queue.reverse();
    }
    let mut steps = Vec::new();
    while !queues.is_empty() {
        let chosen = random.usize(..queues.len());
        let queue = &mut queues[chosen];
        let is_burst = |step: Option<&Step>| step.is_some_and(|step| step.kind == Kind::Burst);
        steps.extend(queue.pop());
        while is_burst(steps.last()) && is_burst(queue.last()) {
            steps.extend(queue.pop());
        }
        if queue.is_empty() {
            queues.swap_remove(chosen);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Vec<Chosen> {
        let chosen = |table, n: usize| Chosen {
            table,
            id: n.to_string(),
            x: n as f64,
            y: 0.0,
            cell: RoutingKey::of_point(24.9 + n as f64 / 100.0, 60.17),
        };
        TABLES
            .iter()
            .flat_map(|table| (0..40).map(move |n| chosen(table, n)))
            .collect()
    }

    #[test]
    fn every_kind_of_edit_is_planned_and_enough_of_them() {
        let plans = plan(&pool(), &mut fastrand::Rng::with_seed(1));
        let steps: Vec<&Step> = plans.iter().flat_map(|plan| &plan.steps).collect();
        for kind in Kind::ALL {
            let is_planned = steps.iter().any(|step| step.kind == kind);
            assert!(is_planned || kind == Kind::DuringRenders, "{kind}");
        }
        let counts = |step: &&&Step| !matches!(step.kind, Kind::OnlyTouched | Kind::RolledBack);
        let n_edits: usize = steps
            .iter()
            .filter(counts)
            .map(|step| step.ids.len() * step.edits.len())
            .sum();
        assert!(n_edits >= 600, "{n_edits}");
    }

    #[test]
    fn a_feature_belongs_to_one_writer_and_begins_with_its_first_edit() {
        let plans = plan(&pool(), &mut fastrand::Rng::with_seed(2));
        for table in &TABLES {
            let own = |nth: usize| {
                let plan = plans
                    .iter()
                    .filter(|plan| plan.table.layer == table.layer)
                    .nth(nth)
                    .unwrap();
                plan.steps
                    .iter()
                    .flat_map(|step| step.ids.clone())
                    .collect::<std::collections::BTreeSet<_>>()
            };
            assert!(own(0).is_disjoint(&own(1)), "{}", table.layer);
        }
    }

    #[test]
    fn a_name_leads_back_to_its_kind() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.as_str()), Some(kind));
        }
    }
}
