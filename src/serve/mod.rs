//! `cellblock serve`: sessions over HTTP, in the wire format of Azure Container Apps dynamic sessions and in one of our own.

mod azure;
mod body;
pub(crate) mod config;
mod files;
mod gate;
pub(crate) mod http;
mod identifier;
mod identity;
mod metrics;
mod native;
mod operations;
mod page;
mod query;
mod refusal;
mod runs;
mod server;
mod store;

pub(crate) use self::server::Server;
