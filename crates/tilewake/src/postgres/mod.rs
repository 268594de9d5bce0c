//! Everything that is SQL: capture and layers, the outbox, the ledger and the journal.
//!
//! Names that come from the user stand in statements only as [`Identifier`], [`TableName`] or [`Literal`].

mod capture;
pub mod cluster;
pub mod current;
pub mod drawn;
mod identifier;
pub mod journal;
pub mod layers;
pub mod ledger;
mod migrate;
pub mod outbox;
pub mod relay_session;
pub mod retention;
pub mod session;
pub mod status;
mod table;
pub mod values;

pub use self::{
    identifier::{Identifier, Literal, TableName},
    migrate::{MigrateError, SchemaError, check, migrate, migrate_features, migrate_ledger},
};
