//! What `tilewake run` is told: flags beat environment variables, these beat the file, and the file beats the defaults.
//!
//! Every key of the file is also a flag and a variable. A key that nobody knows is an error, because a misspelt setting
//! that is silently ignored is found out at the worst moment.

use std::{collections::BTreeSet, net::SocketAddr, path::Path, str::FromStr, time::Duration};

use clap::Args;
use serde::{Deserialize, Serialize};

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or a value is not of its type.
    #[error("cannot use the configuration file {path}")]
    Invalid {
        /// The file.
        path: String,
        /// Where and why.
        #[source]
        source: toml::de::Error,
    },
    /// A key that nobody knows.
    #[error("{path} sets {key:?}, which is no setting; the nearest is {nearest:?}")]
    UnknownKey {
        /// The file.
        path: String,
        /// The key.
        key: String,
        /// A key there is.
        nearest: String,
    },
    /// No database is named.
    #[error(
        "no database is named: set DATABASE_URL, pass --database-url postgres://user@host/database, \
         or write database_url in the file given with --config"
    )]
    NoDatabase,
    /// A value out of its range.
    #[error("{key} is {value}: {rule}")]
    OutOfRange {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
}

macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $type:ty $(, from $flag:ty)? = $default:expr, env $env:literal $(, $attribute:meta)*;
    )+) => {
        /// What `run` is told, complete.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Settings {
            $($(#[doc = $doc])+ $(#[$attribute])* pub $name: $type,)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        /// What `run` is told on its command line and in its environment.
        #[derive(Args, Clone, Debug, Default)]
        pub struct Overrides {
            $($(#[doc = $doc])+
            #[arg(long, env = $env, hide_env_values = true)]
            pub $name: Option<settings!(@flag $type $(, $flag)?)>,)+
        }

        impl Overrides {
            fn apply(self, settings: &mut Settings) {
                $(if let Some(value) = self.$name { settings.$name = value.into(); })+
            }
        }
    };
    (@flag $type:ty, $flag:ty) => { $flag };
    (@flag $type:ty) => { $type };
}

settings! {
    /// Where the features are, as `postgres://user@host/database`.
    database_url: String = String::new(), env "DATABASE_URL";
    /// Where to serve tiles and metrics; port 0 takes a free one.
    listen: SocketAddr, from Address = SocketAddr::from(([127, 0, 0, 1], 3000)), env "TILEWAKE_LISTEN";
    /// The URL under which clients reach the server, where that differs from what they ask for.
    public_url: String = String::new(), env "TILEWAKE_PUBLIC_URL";
    /// The consumer name: owns a ledger and a journal in the database.
    consumer: String = "default".to_owned(), env "TILEWAKE_CONSUMER";
    /// How many relays to run.
    relays: usize = 1, env "TILEWAKE_RELAYS";
    /// Outbox rows a batch.
    batch: i64 = 200, env "TILEWAKE_BATCH";
    /// How often to look for work without having been woken.
    poll: Duration, from Span = Duration::from_secs(1), env "TILEWAKE_POLL", serde(with = "humantime_serde");
    /// How long a publish may take; a relay frozen for longer loses its claim.
    publish_bound: Duration, from Span = Duration::from_secs(30), env "TILEWAKE_PUBLISH_BOUND", serde(with = "humantime_serde");
    /// How often an event may fail alone before its row goes to the dead letters and its tiles are purged by box.
    max_attempts: u32 = 10, env "TILEWAKE_MAX_ATTEMPTS";
    /// Geometries with more bytes of well-known binary than this go out as boxes.
    max_geometry_bytes: i64 = 8 << 20, env "TILEWAKE_MAX_GEOMETRY_BYTES";
    /// How many event ids the consumer remembers, so that a repeat costs no round trip.
    remembered_events: u64 = 100_000, env "TILEWAKE_REMEMBERED_EVENTS";
    /// How many ranges of tile ids the stale tiles of one edit may take before the deepest zooms are rounded outwards.
    max_ranges: usize = 10_000, env "TILEWAKE_MAX_RANGES";
    /// Bytes of pictures to keep in the tile cache.
    cache_bytes: u64 = 256 << 20, env "TILEWAKE_CACHE_BYTES";
    /// For how long published outbox rows, and the ids of events seen, are kept.
    window: Duration, from Span = Duration::from_hours(7 * 24), env "TILEWAKE_WINDOW", serde(with = "humantime_serde");
    /// How many journal rows are kept; a purger further behind than that purges everything.
    journal_rows: i64 = 100_000, env "TILEWAKE_JOURNAL_ROWS";
}

/// A time on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Span(Duration);

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let span = humantime::parse_duration(text);
        span.map(Self)
            .map_err(|_| "write a number with its unit, such as 500ms, 30s or 7days")
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

/// An address on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Address(SocketAddr);

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = text.parse();
        address
            .map(Self)
            .map_err(|_| "write an IP address and a port, such as 127.0.0.1:3000 or 0.0.0.0:80")
    }
}

impl From<Address> for SocketAddr {
    fn from(address: Address) -> Self {
        address.0
    }
}

/// The longest window: the ring of the outbox has nine days, and today's and its neighbours are never pruned.
const LONGEST_WINDOW: Duration = Duration::from_hours(7 * 24);

impl Settings {
    /// Reads the file, if there is one, and puts `overrides` over it.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Self, SettingsError> {
        let mut settings = match file {
            Some(path) => Self::from_file(path)?,
            None => Self::default(),
        };
        overrides.apply(&mut settings);
        settings.check()?;
        Ok(settings)
    }

    fn from_file(path: &Path) -> Result<Self, SettingsError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| SettingsError::Unreadable {
            path: name.clone(),
            source,
        })?;
        let invalid = |source| SettingsError::Invalid {
            path: name.clone(),
            source,
        };
        let table: toml::Table = toml::from_str(&text).map_err(invalid)?;
        let known = known_keys();
        if let Some(key) = table.keys().find(|key| !known.contains(*key)) {
            let nearest = known
                .iter()
                .max_by(|a, b| similarity(a, key).total_cmp(&similarity(b, key)));
            let nearest = nearest.cloned().unwrap_or_default();
            return Err(SettingsError::UnknownKey {
                path: name,
                key: key.clone(),
                nearest,
            });
        }
        // From the text, not the table, so that an error shows the line.
        toml::from_str(&text).map_err(invalid)
    }

    fn check(&self) -> Result<(), SettingsError> {
        if self.database_url.is_empty() {
            return Err(SettingsError::NoDatabase);
        }
        let rules = [
            (
                "window",
                humantime::format_duration(self.window).to_string(),
                self.window <= LONGEST_WINDOW,
                "the outbox keeps at most 7 days",
            ),
            (
                "relays",
                self.relays.to_string(),
                self.relays <= 64,
                "it must be at most 64, and 0 runs none",
            ),
            (
                "publish_bound",
                humantime::format_duration(self.publish_bound).to_string(),
                (Duration::from_millis(100)..=Duration::from_hours(1)).contains(&self.publish_bound),
                "it must be from 100ms to 1h",
            ),
            (
                "batch",
                self.batch.to_string(),
                (1..=10_000).contains(&self.batch),
                "it must be from 1 to 10000",
            ),
            (
                "poll",
                humantime::format_duration(self.poll).to_string(),
                !self.poll.is_zero(),
                "it must be longer than nothing",
            ),
            (
                "max_attempts",
                self.max_attempts.to_string(),
                (1..=1000).contains(&self.max_attempts),
                "it must be from 1 to 1000",
            ),
            (
                "max_geometry_bytes",
                self.max_geometry_bytes.to_string(),
                self.max_geometry_bytes >= 0,
                "it must not be negative",
            ),
            (
                "max_ranges",
                self.max_ranges.to_string(),
                self.max_ranges >= 100,
                "it must be at least 100",
            ),
            (
                "journal_rows",
                self.journal_rows.to_string(),
                self.journal_rows >= 1000,
                "it must be at least 1000",
            ),
            (
                "consumer",
                format!("{:?}", self.consumer),
                !self.consumer.is_empty(),
                "a consumer needs a name",
            ),
        ];
        match rules.into_iter().find(|(.., holds, _)| !holds) {
            Some((key, value, _, rule)) => Err(SettingsError::OutOfRange { key, value, rule }),
            None => Ok(()),
        }
    }
}

fn known_keys() -> BTreeSet<String> {
    toml::Table::try_from(Settings::default())
        .map(|table| table.keys().cloned().collect())
        .unwrap_or_default()
}

fn similarity(known: &str, key: &str) -> f64 {
    strsim::jaro_winkler(known, key)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn load(text: &str, overrides: Overrides) -> Result<Settings, SettingsError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Settings::load(Some(file.path()), overrides)
    }

    #[test]
    fn flags_beat_the_file_and_the_file_beats_the_defaults() {
        let overrides = Overrides {
            batch: Some(7),
            ..Overrides::default()
        };
        let settings = load("database_url = 'postgres://x'\nbatch = 5\npoll = '50ms'", overrides).unwrap();
        assert_eq!(
            (settings.batch, settings.poll, settings.relays),
            (7, Duration::from_millis(50), 1)
        );
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_nearest_known_one() {
        let error = load("database_url = 'postgres://x'\ncache_byte = 1", Overrides::default()).unwrap_err();
        assert!(error.to_string().contains(r#"the nearest is "cache_bytes""#), "{error}");
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        let error = load("", Overrides::default()).unwrap_err();
        assert!(matches!(error, SettingsError::NoDatabase));
        let error = load("database_url = 'postgres://x'\nwindow = '8days'", Overrides::default()).unwrap_err();
        assert_eq!(error.to_string(), "window is 8days: the outbox keeps at most 7 days");
        let error = load("database_url = 'postgres://x'\nbatch = 'many'", Overrides::default()).unwrap_err();
        assert!(matches!(error, SettingsError::Invalid { .. }));
    }
}
