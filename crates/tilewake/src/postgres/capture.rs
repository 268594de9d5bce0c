//! The triggers of a layer, as SQL text made for its table.
//!
//! Static SQL with the names inlined, not one function that builds statements from its arguments: plans are cached, and a
//! writer pays for no parsing. What the text says of the table may become untrue when the table is altered; the functions
//! then purge the layer instead of failing the writer, until [`super::layers::alterations`] makes them anew.

use super::{Identifier, Literal, TableName, table::Column};

/// What the text is made from.
pub(crate) struct Capture<'a> {
    pub number: i32,
    pub layer: &'a str,
    pub table: &'a TableName,
    /// The schema that `PostGIS` lives in.
    pub postgis: &'a Identifier,
    pub id_column: &'a Identifier,
    /// As in SQL, such as `character varying`.
    pub id_type: &'a str,
    pub geometry_column: &'a Identifier,
    /// The columns that tiles show.
    pub columns: &'a [Column],
}

/// The statements whose edits are captured one by one.
const OPERATIONS: [Operation; 3] = [Operation::Insert, Operation::Update, Operation::Delete];

#[derive(Clone, Copy)]
enum Operation {
    Insert,
    Update,
    Delete,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    fn transition_tables(self) -> &'static str {
        match self {
            Self::Insert => "NEW TABLE AS tilewake_new",
            Self::Update => "OLD TABLE AS tilewake_old NEW TABLE AS tilewake_new",
            Self::Delete => "OLD TABLE AS tilewake_old",
        }
    }

    /// The statement's first edit, and whether there are more: most statements edit one row, and sets cost.
    fn one(self, capture: &Capture<'_>) -> String {
        const INTO: &str = "INTO many, key, existed, stands, moved, relabelled, box_before, box_after, point_before,
                                 point_after, digest_after";
        let old = capture.images("tilewake_old");
        let new = capture.images("tilewake_new");
        match self {
            Self::Insert => format!(
                "SELECT EXISTS (SELECT FROM tilewake_new OFFSET 1), n.key::text, false, true, true, true,
                        NULL::box, tilewake.box_of(n.geom), NULL::point, tilewake.route_point_of(n.geom), n.digest
                 {INTO} FROM ({new}) n WHERE n.key IS NOT NULL LIMIT 1;"
            ),
            Self::Delete => format!(
                "SELECT EXISTS (SELECT FROM tilewake_old OFFSET 1), o.key::text, true, false, true, true,
                        tilewake.box_of(o.geom), NULL::box, tilewake.route_point_of(o.geom), NULL::point, NULL::bigint
                 {INTO} FROM ({old}) o WHERE o.key IS NOT NULL LIMIT 1;"
            ),
            // A change of the key makes two edits.
            Self::Update => format!(
                "SELECT o.key IS DISTINCT FROM n.key OR EXISTS (SELECT FROM tilewake_new OFFSET 1), n.key::text, true, true,
                        o.image *<> n.image, o.shown *<> n.shown, tilewake.box_of(o.geom), tilewake.box_of(n.geom),
                        tilewake.route_point_of(o.geom), tilewake.route_point_of(n.geom), n.digest
                 {INTO} FROM ({old}) o CROSS JOIN ({new}) n
                 WHERE coalesce(o.key, n.key) IS NOT NULL LIMIT 1;"
            ),
        }
    }

    /// The statement's edits as rows of `tilewake.edit`, from images called `o` and `n`.
    fn edits(self, capture: &Capture<'_>) -> String {
        let old = capture.images("tilewake_old");
        let new = capture.images("tilewake_new");
        match self {
            Self::Insert => format!(
                "SELECT ROW(n.key::text, false, true, true, true, NULL, tilewake.box_of(n.geom),
                            NULL, tilewake.route_point_of(n.geom), n.digest)::tilewake.edit
                 FROM ({new}) n WHERE n.key IS NOT NULL"
            ),
            Self::Delete => format!(
                "SELECT ROW(o.key::text, true, false, true, true, tilewake.box_of(o.geom), NULL,
                            tilewake.route_point_of(o.geom), NULL, NULL)::tilewake.edit
                 FROM ({old}) o WHERE o.key IS NOT NULL"
            ),
            // A change of the key has an old image without a new one, and the other way round. Images are compared bit
            // by bit: IS DISTINCT FROM fails on json, and overlooks citext and numeric changes that are drawn.
            Self::Update => format!(
                "SELECT ROW(p.key::text, p.existed, p.stands, p.moved, p.relabelled,
                            tilewake.box_of(p.before), tilewake.box_of(p.after),
                            CASE WHEN p.moved THEN tilewake.route_point_of(p.before) END,
                            tilewake.route_point_of(p.after), p.digest)::tilewake.edit
                 FROM (SELECT coalesce(o.key, n.key) AS key, o.here IS TRUE AS existed, n.here IS TRUE AS stands,
                              (o.image *<> n.image) IS NOT FALSE AS moved,
                              (o.shown *<> n.shown) IS NOT FALSE AS relabelled,
                              o.geom AS before, n.geom AS after, n.digest
                       FROM ({old}) o FULL JOIN ({new}) n ON o.key = n.key OFFSET 0) p
                 WHERE (p.moved OR p.relabelled) AND p.key IS NOT NULL"
            ),
        }
    }
}

impl Capture<'_> {
    /// Statements that make the layer's functions, or make them anew.
    pub(crate) fn functions(&self) -> Vec<String> {
        let mut statements = vec![self.look()];
        for operation in OPERATIONS {
            statements.push(self.function(operation));
        }
        // Triggers call them for everybody; nobody else may.
        for statement in 0..statements.len() {
            let signature = match statement {
                0 => format!("tilewake.look_{}(text)", self.number),
                n => format!("{}()", self.function_name(OPERATIONS[n - 1])),
            };
            statements.push(format!("REVOKE EXECUTE ON FUNCTION {signature} FROM PUBLIC"));
        }
        statements
    }

    /// Statements that put the triggers on one table of the layer's tree; they must not be there yet.
    pub(crate) fn triggers(&self, table: &TableName) -> Vec<String> {
        let layer = Literal(self.layer);
        let mut statements = Vec::new();
        for operation in OPERATIONS {
            statements.push(format!(
                "CREATE TRIGGER {} AFTER {} ON {table} REFERENCING {} FOR EACH STATEMENT EXECUTE FUNCTION {}()",
                self.trigger_name(operation.word()),
                operation.word(),
                operation.transition_tables(),
                self.function_name(operation),
            ));
        }
        statements.push(format!(
            "CREATE TRIGGER {} AFTER TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION tilewake.truncated({layer})",
            self.trigger_name("truncate"),
        ));
        // Also for a session that applies changes as a replica.
        for word in ["insert", "update", "delete", "truncate"] {
            statements.push(format!(
                "ALTER TABLE {table} ENABLE ALWAYS TRIGGER {}",
                self.trigger_name(word)
            ));
        }
        statements
    }

    fn trigger_name(&self, word: &str) -> String {
        format!("tilewake_{}_{word}", self.number)
    }

    fn function_name(&self, operation: Operation) -> String {
        format!("tilewake.capture_{}_{}", self.number, operation.word())
    }

    fn function(&self, operation: Operation) -> String {
        let body = fill(
            include_str!("capture.sql"),
            &[
                ("{layer}", &Literal(self.layer).to_string()),
                ("{number}", &self.number.to_string()),
                ("{one}", &operation.one(self)),
                ("{edits}", &operation.edits(self)),
            ],
        );
        // Transition tables have no statistics, so a large one looks dear enough to compile for, which takes longer than
        // the statement.
        format!(
            "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
             SET search_path = pg_catalog, {postgis}, pg_temp SET jit = off AS {body}",
            function = self.function_name(operation),
            postgis = self.postgis,
            body = Literal(&body),
        )
    }

    /// What the table holds of one feature now.
    fn look(&self) -> String {
        let body = format!(
            "BEGIN
                SELECT count(*) > 0, tilewake.unite(tilewake.box_of(n.geom)),
                       (array_agg(tilewake.route_point_of(n.geom)))[1], (array_agg(n.digest))[1]
                INTO stands, box, point, digest
                FROM ({images}) n WHERE n.key = feature_id::{id_type};
            END",
            images = self.images(&self.table.to_string()),
            id_type = self.id_type,
        );
        format!(
            "CREATE OR REPLACE FUNCTION tilewake.look_{number}(
                 feature_id text, OUT stands boolean, OUT box box, OUT point point, OUT digest bigint)
             LANGUAGE plpgsql SET search_path = pg_catalog, {postgis}, pg_temp AS {body}",
            number = self.number,
            postgis = self.postgis,
            body = Literal(&body),
        )
    }

    /// The images of the features in `source`.
    fn images(&self, source: &str) -> String {
        let shown: Vec<String> = self.columns.iter().map(|c| format!("r.{}", c.name)).collect();
        let stable = self.columns.iter().map(|column| column.stable_text("r"));
        let geometry = &self.geometry_column;
        let digested: Vec<String> = std::iter::once(format!("r.{geometry}")).chain(stable).collect();
        format!(
            "SELECT true AS here, r.{id} AS key, r.{geometry} AS geom, ROW(r.{geometry}) AS image, ROW({shown}) AS shown,
                    hashtextextended(ROW({digested})::text COLLATE \"C\", 0) AS digest
             FROM {source} r",
            id = self.id_column,
            shown = shown.join(", "),
            digested = digested.join(", "),
        )
    }
}

/// Puts values in the places of a template, in one pass: a column may be called like a place.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let place = values.iter().find(|(place, _)| rest.starts_with(place));
        let (place, value) = place.copied().unwrap_or(("{", "{"));
        text.push_str(value);
        rest = &rest[place.len()..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_looks_like_a_place_stays_as_it_is() {
        let filled = fill("{a} is '{}' and {b}, {a}", &[("{a}", "{b}"), ("{b}", "2")]);
        assert_eq!(filled, "{b} is '{}' and 2, {b}");
    }
}
