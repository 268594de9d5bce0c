//! Names of the user's tables and columns in SQL text: the only way by which a name gets into a statement.

use std::fmt;

/// A name that prints itself quoted, so that no spelling of it can end the quotation.
///
/// ```
/// use tilewake::postgres::Identifier;
/// assert_eq!(Identifier::new("Odd \"name\"").to_string(), r#""Odd ""name""""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identifier(String);

impl Identifier {
    /// The name as the catalog has it.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name without quotes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

/// A table's name with its schema.
///
/// ```
/// use tilewake::postgres::TableName;
/// assert_eq!(TableName::new("public", "roads").to_string(), r#""public"."roads""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    schema: Identifier,
    table: Identifier,
}

impl TableName {
    /// The table `table` of the schema `schema`.
    #[must_use]
    pub fn new(schema: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            schema: Identifier::new(schema),
            table: Identifier::new(table),
        }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Identifier {
        &self.schema
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Identifier {
        &self.table
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

/// A text as an SQL literal, whatever `standard_conforming_strings` says.
///
/// ```
/// use tilewake::postgres::Literal;
/// assert_eq!(Literal("it's").to_string(), "'it''s'");
/// assert_eq!(Literal(r"a\b").to_string(), r"E'a\\b'");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Literal<'a>(pub &'a str);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.0.contains('\\') { "E" } else { "" };
        write!(f, "{prefix}'{}'", self.0.replace('\\', r"\\").replace('\'', "''"))
    }
}
