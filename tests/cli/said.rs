//! What a command says, without what differs from run to run.

use std::collections::BTreeMap;

use expect_test::Expect;
use sqlx::{AssertSqlSafe, postgres::PgConnectOptions};
use tilewake_testbed::postgres::Database;

use crate::program::{output, tilewake};

/// A user's terminal: the database in the environment, if there is one.
pub(crate) struct Terminal {
    variables: BTreeMap<&'static str, String>,
    /// What differs from run to run, and what stands for it.
    names: Vec<(String, &'static str)>,
}

impl Terminal {
    /// Without a database.
    pub(crate) fn bare() -> Self {
        Self {
            variables: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    /// With this one in `DATABASE_URL`.
    pub(crate) fn on(database: &Database) -> Self {
        let name = database.options().get_database().unwrap().to_owned();
        Self::bare()
            .with("DATABASE_URL", database.url())
            .calling(&name, "DATABASE")
    }

    /// With another variable.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.insert(name, value.to_owned());
        self
    }

    /// Has something that differs from run to run stand as a word.
    pub(crate) fn calling(mut self, what: &str, word: &'static str) -> Self {
        self.names.push((what.to_owned(), word));
        self
    }

    /// The exit code of a command and what it says, errors alone for one that logs.
    pub(crate) async fn says(&self, arguments: &str) -> String {
        let mut command = tilewake();
        command.envs(&self.variables).env("TILEWAKE_LOG", "error");
        let output = output(command.args(arguments.split(' '))).await;
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let mut said = format!("$ tilewake {arguments}\n{}{}", said[0], said[1]);
        for (what, word) in &self.names {
            said = said.replace(what, word);
        }
        format!("{said}= {}\n", output.status.code().unwrap())
    }

    /// Compares what several commands say, one after the other.
    pub(crate) async fn check(&self, commands: &[&str], expected: Expect) {
        let mut said = String::new();
        for command in commands {
            said.push_str(&self.says(command).await);
        }
        expected.assert_eq(&said);
    }
}

/// Runs statements, all in one transaction.
pub(crate) async fn sql(database: &Database, sql: &str) {
    let mut session = database.connect().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(&mut session)
        .await
        .unwrap();
}

/// The same database as another role.
pub(crate) fn as_role(database: &Database, role: &str) -> String {
    use sqlx::ConnectOptions as _;
    PgConnectOptions::username(database.options(), role)
        .to_url_lossy()
        .into()
}
