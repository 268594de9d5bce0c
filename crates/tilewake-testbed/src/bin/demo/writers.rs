//! Edits the map through plain SQL, from outside, as several applications would.
//!
//! The record of what was done is written in the transaction that did it, with versions that are counted here: the judge
//! must not ask tilewake what happened.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tilewake_testbed::postgres::Database;
use tokio::task::JoinSet;

use crate::{
    edits::{Edit, Kind, Plan, Step},
    tables::Table,
};

/// The longest pause between two transactions of a writer, on average half of it. Bursts have none.
const PAUSE: Duration = Duration::from_millis(200);

/// What the writers did.
#[derive(Default)]
pub(crate) struct Commits {
    /// When each transaction sent its COMMIT, in microseconds since 1970.
    pub(crate) sent_at: HashMap<i64, i64>,
    /// How many rows were written, whether or not that came to an edit.
    pub(crate) n_rows: HashMap<Kind, u64>,
}

impl Commits {
    /// Puts others' to these.
    pub(crate) fn add(&mut self, others: Self) {
        self.sent_at.extend(others.sent_at);
        for (kind, n) in others.n_rows {
            *self.n_rows.entry(kind).or_default() += n;
        }
    }
}

/// Lets every writer carry out its plan.
pub(crate) async fn perform(
    database: &Database,
    plans: Vec<Plan>,
    random: &mut fastrand::Rng,
    bar: &ProgressBar,
) -> Result<Commits> {
    let mut writers = JoinSet::new();
    for plan in plans {
        let writer = Writer {
            connection: database.connect().await?,
            table: plan.table,
            removed: HashMap::new(),
            commits: Commits::default(),
        };
        writers.spawn(writer.carry_out(plan.steps, random.fork(), bar.clone()));
    }
    let mut all = Commits::default();
    while let Some(commits) = writers.join_next().await {
        all.add(commits??);
    }
    bar.finish_and_clear();
    Ok(all)
}

struct Writer {
    connection: PgConnection,
    table: &'static Table,
    /// What was deleted and is to come again.
    removed: HashMap<String, Removed>,
    commits: Commits,
}

struct Removed {
    name: Option<String>,
    class: Option<String>,
    /// As Postgres writes it.
    geometry: String,
}

impl Writer {
    async fn carry_out(mut self, steps: Vec<Step>, mut random: fastrand::Rng, bar: ProgressBar) -> Result<Commits> {
        for step in steps {
            self.perform(&step)
                .await
                .with_context(|| format!("could not edit {} ({})", self.table.layer, step.kind))?;
            bar.inc(1);
            if step.kind != Kind::Burst {
                tokio::time::sleep(PAUSE.mul_f64(random.f64())).await;
            }
        }
        self.connection.close().await?;
        Ok(self.commits)
    }

    /// One transaction.
    async fn perform(&mut self, step: &Step) -> Result<()> {
        static COUNT: AtomicI64 = AtomicI64::new(1);
        let transaction = COUNT.fetch_add(1, Ordering::Relaxed);
        sqlx::query("BEGIN").execute(&mut self.connection).await?;
        for edit in &step.edits {
            let written = self.edit(edit, &step.ids).await?;
            *self.commits.n_rows.entry(step.kind).or_default() += written.len() as u64;
            // A row that did not change is no edit, and gets no version.
            if *edit != Edit::Touch {
                self.record(step.kind, &written, transaction).await?;
            }
        }
        if step.kind == Kind::RolledBack {
            sqlx::query("ROLLBACK").execute(&mut self.connection).await?;
            return Ok(());
        }
        self.commits.sent_at.insert(transaction, now());
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        Ok(())
    }

    /// One statement; the keys of the rows it wrote.
    async fn edit(&mut self, edit: &Edit, ids: &[String]) -> Result<Vec<String>> {
        let Table {
            layer, id_type, srid, ..
        } = self.table;
        let shape = match edit {
            Edit::Shift(x, y) => {
                format!("geom = ST_Transform(ST_Translate(ST_Transform(geom, 3857), {x}, {y}), {srid})")
            }
            Edit::Scale(factor) => {
                format!("geom = ST_Scale(geom, ST_MakePoint({factor}, {factor}), ST_Centroid(geom))")
            }
            Edit::Grow => "name = coalesce(name, '') || '+'".to_owned(),
            Edit::Rename(name) => format!("name = '{name}'"),
            Edit::Touch => "touched_at = clock_timestamp()".to_owned(),
            Edit::Delete => return self.delete(ids).await,
            Edit::InsertAgain => return self.insert_again(ids).await,
            Edit::Insert(x, y) => return self.insert(ids, *x, *y).await,
        };
        let update = format!("UPDATE {layer} SET {shape} WHERE id = ANY ($1::text[]::{id_type}[]) RETURNING id::text");
        Ok(sqlx::query_scalar(AssertSqlSafe(update))
            .bind(ids)
            .fetch_all(&mut self.connection)
            .await?)
    }

    async fn delete(&mut self, ids: &[String]) -> Result<Vec<String>> {
        let Table { layer, id_type, .. } = self.table;
        let delete = format!(
            "DELETE FROM {layer} WHERE id = ANY ($1::text[]::{id_type}[])
             RETURNING id::text, name, class, geom::text AS geometry"
        );
        let rows = sqlx::query(AssertSqlSafe(delete))
            .bind(ids)
            .fetch_all(&mut self.connection)
            .await?;
        for row in &rows {
            let (name, class) = (row.try_get("name")?, row.try_get("class")?);
            let geometry = row.try_get("geometry")?;
            self.removed
                .insert(row.try_get("id")?, Removed { name, class, geometry });
        }
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    async fn insert_again(&mut self, ids: &[String]) -> Result<Vec<String>> {
        let Table { layer, id_type, .. } = self.table;
        let insert = format!(
            "INSERT INTO {layer} (id, name, class, geom) VALUES ($1::text::{id_type}, $2, $3, $4::text::geometry)"
        );
        for id in ids {
            let removed = self
                .removed
                .remove(id)
                .context("a feature to insert again was never deleted")?;
            sqlx::query(AssertSqlSafe(insert.clone()))
                .bind(id)
                .bind(removed.name)
                .bind(removed.class)
                .bind(removed.geometry)
                .execute(&mut self.connection)
                .await?;
        }
        Ok(ids.to_vec())
    }

    async fn insert(&mut self, ids: &[String], x: f64, y: f64) -> Result<Vec<String>> {
        let Table {
            layer, id_type, srid, ..
        } = self.table;
        let shape = match *layer {
            "roads" => format!("ST_MakeLine(ST_MakePoint({x}, {y}), ST_MakePoint({x} + 25, {y} + 40))"),
            _ => format!("ST_Buffer(ST_MakePoint({x}, {y}), 12, 'quad_segs=2')"),
        };
        let insert = format!(
            "INSERT INTO {layer} (id, name, class, geom)
             SELECT id::{id_type}, 'Uusi', 'new', ST_Transform(ST_SetSRID({shape}, 3857), {srid}) FROM unnest($1::text[]) AS id
             RETURNING id::text"
        );
        Ok(sqlx::query_scalar(AssertSqlSafe(insert))
            .bind(ids)
            .fetch_all(&mut self.connection)
            .await?)
    }

    /// Records what the features look like now, as their next versions.
    async fn record(&mut self, kind: Kind, ids: &[String], transaction: i64) -> Result<()> {
        let Table { layer, id_type, .. } = self.table;
        let record = format!(
            "INSERT INTO demo.history (layer, id, version, kind, transaction, geom)
             SELECT '{layer}', wanted.id, coalesce(last.version, 0) + 1, $2, $3, now.geom
             FROM unnest($1::text[]) AS wanted (id)
             LEFT JOIN {layer} AS now ON now.id = wanted.id::{id_type}
             LEFT JOIN LATERAL (
                SELECT max(version) AS version FROM demo.history AS h WHERE h.layer = '{layer}' AND h.id = wanted.id
             ) AS last ON true"
        );
        let query = sqlx::query(AssertSqlSafe(record))
            .bind(ids)
            .bind(kind.as_str())
            .bind(transaction);
        query.execute(&mut self.connection).await?;
        Ok(())
    }
}

fn now() -> i64 {
    let since_1970 = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX)
}
