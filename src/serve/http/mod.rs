//! What every request passes: connections, TLS, who may call, how often, and what is noted of it.

pub(crate) mod accept;
pub(crate) mod auth;
pub(crate) mod observe;
mod patient;
pub(crate) mod rate;
pub(crate) mod site;
pub(crate) mod tls;
pub(crate) mod unread;
