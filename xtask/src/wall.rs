//! The wall between *decides* and *does*: the core knows no runtime, no database, no broker and no web server.

use anyhow::{Result, ensure};

use crate::step::{cargo, output};

/// What stands on the other side.
const DOERS: [&str; 4] = ["tokio", "sqlx", "rdkafka", "axum"];

/// Looks at what the core is built from.
///
/// And at what the shell is built from, where the same look must find something: a check that finds nothing there would
/// find nothing anywhere.
pub(crate) fn check() -> Result<()> {
    let control = doers_under("tilewake")?;
    for doer in ["tokio", "sqlx", "axum"] {
        ensure!(
            control.iter().any(|found| found == doer),
            "the check does not see {doer} under tilewake, which uses it: it would see it nowhere"
        );
    }
    let found = doers_under("tilewake-core")?;
    ensure!(
        found.is_empty(),
        "tilewake-core decides and must not depend on {}",
        found.join(", ")
    );
    eprintln!(
        "tilewake-core depends on none of {} (tilewake: on {})",
        DOERS.join(", "),
        control.join(", ")
    );
    Ok(())
}

fn doers_under(package: &str) -> Result<Vec<String>> {
    let tree = output(&mut cargo(&[
        "tree",
        "--locked",
        "--edges",
        "normal",
        "--target",
        "all",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--package",
        package,
    ]))?;
    Ok(doers_in(&tree))
}

/// The doers among packages listed one a line, each as `name vX.Y.Z …`; a doer's own parts (`sqlx-core`) count as it.
fn doers_in(tree: &str) -> Vec<String> {
    let names = || tree.lines().filter_map(|line| line.split(' ').next());
    let is_part =
        |name: &str, doer: &str| name == doer || name.strip_prefix(doer).is_some_and(|rest| rest.starts_with('-'));
    let found = DOERS.iter().filter(|doer| names().any(|name| is_part(name, doer)));
    found.map(|&doer| doer.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doer_is_found_by_its_name_and_by_its_parts_and_by_nothing_else() {
        assert_eq!(
            doers_in("tilewake-core v0.1.0\ngeo v0.33.1\nsqlx-core v0.9.0\ntokio v1.0.0 (*)"),
            ["tokio", "sqlx"]
        );
        assert!(doers_in("tokiolike v1.0.0\naxumish v0.1.0 (tokio)\n").is_empty());
    }
}
