//! When tiles were purged, as the server tells everybody who listens.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use tilewake_testbed::http::Client;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    edits::Kind,
    history::{History, JournalRow},
    writers::Commits,
};

/// Where the server tells of purges, as server-sent events.
const STREAM: &str = "/events";

/// What is heard of the purge of a journal row.
#[derive(Deserialize)]
struct Notice {
    number: i64,
    purged_at: DateTime<Utc>,
}

/// When each journal row was purged, in microseconds since 1970.
type Times = Arc<Mutex<BTreeMap<i64, i64>>>;

/// Listens from its making on.
pub(crate) struct Purges {
    times: Times,
    _listener: AbortOnDropHandle<Result<()>>,
}

impl Purges {
    pub(crate) async fn follow(address: SocketAddr) -> Result<Self> {
        let mut client = Client::connect(address).await?;
        let response = client.stream(STREAM).await?;
        ensure!(
            response.status().is_success(),
            "{STREAM} was answered with {}",
            response.status()
        );
        let times = Times::default();
        let listener = tokio::spawn(listen(client, response.into_body(), Arc::clone(&times)));
        Ok(Self {
            times,
            _listener: AbortOnDropHandle::new(listener),
        })
    }

    /// Whether the purges have reached this row of the journal.
    pub(crate) fn reached(&self, number: i64) -> bool {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.last_key_value().is_some_and(|(&last, _)| last >= number)
    }

    /// How long each edit took from its COMMIT to its purge, in milliseconds, sorted.
    pub(crate) fn times(
        &self,
        journal: &[JournalRow],
        history: &History,
        commits: &Commits,
    ) -> HashMap<Kind, Vec<f64>> {
        let purged_at = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let mut times: HashMap<Kind, Vec<f64>> = HashMap::new();
        for row in journal {
            let Some(&purged_at) = purged_at.get(&row.number) else {
                continue;
            };
            for (id, _) in &row.events {
                let recorded = history
                    .versions
                    .get(&id.key)
                    .and_then(|versions| versions.get(&id.version));
                let edit = recorded.and_then(|r| Some((r.kind?, commits.sent_at.get(&r.transaction)?)));
                if let Some((kind, sent_at)) = edit {
                    times
                        .entry(kind)
                        .or_default()
                        .push((purged_at - sent_at) as f64 / 1000.0);
                }
            }
        }
        for times in times.values_mut() {
            times.sort_by(f64::total_cmp);
        }
        times
    }
}

async fn listen(_client: Client, mut body: Incoming, times: Times) -> Result<()> {
    let mut received = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the stream of purges broke")?.into_data() else {
            continue;
        };
        received.extend_from_slice(&data);
        while let Some(end) = received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).collect();
            if let Some(notice) = notice(&line) {
                let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
                times.insert(notice.number, notice.purged_at.timestamp_micros());
            }
        }
    }
    Ok(())
}

fn notice(line: &[u8]) -> Option<Notice> {
    serde_json::from_slice(line.strip_prefix(b"data:")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_stream_tells_when_a_row_was_purged() {
        let line = br#"data: {"number":7,"purged_at":"2026-01-02T03:04:05.678901Z","layer":"roads"}"#;
        let heard = notice(line).unwrap();
        assert_eq!((heard.number, heard.purged_at.timestamp_subsec_micros()), (7, 678_901));
        assert!(notice(b": still here\n").is_none());
        assert!(notice(b"id: 7\n").is_none());
    }
}
