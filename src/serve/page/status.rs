//! What both pages show of a session: what it does, what it uses, its buttons.

use std::sync::Arc;
use std::time::SystemTime;

use maud::{Markup, html};

use super::meter::Reading;
use super::units;
use crate::serve::server::State;
use crate::serve::store::Entry;

/// What a session does now.
pub(super) fn activity(entry: &Entry) -> Markup {
    let going: Vec<_> = entry.history.all().into_iter().filter(|record| record.end().is_none()).collect();
    let started: Vec<SystemTime> = going.iter().filter_map(|record| record.started()).collect();
    let waiting = going.len() - started.len();
    html! {
        span.activity {
            @match started.iter().min() {
                Some(since) => {
                    span.pill.running {
                        "running "
                        @if started.len() > 1 { "(" (started.len()) ") " }
                        (units::span(units::since(*since)))
                    }
                },
                None if waiting > 0 => {},
                None => span.pill.idle { "idle" },
            }
            @if waiting > 0 { span.pill.waiting { (waiting) " waiting" } }
        }
    }
}

/// Its age, what it uses, and when it ends.
pub(super) fn figures(state: &State, entry: &Entry) -> Markup {
    let Reading { usage, cores } = state.meter.read(entry);
    let ceiling = state.store.config().ceiling;
    let remaining = entry.expires().duration_since(SystemTime::now()).unwrap_or_default();
    html! {
        dl {
            div { dt { "Age" } dd { (units::span(units::since(entry.created))) } }
            @if let Some(total) = usage.cpu {
                div title={ (units::took(total)) " in all" } {
                    dt { "CPU" }
                    dd { (bar(cores.unwrap_or_default() / ceiling.cpus)) (format!("{:.0} %", cores.unwrap_or_default() * 100.0)) }
                }
            }
            @if let Some(memory) = usage.memory {
                @let peak = usage.memory_peak.unwrap_or(memory);
                div title={ "at most " (units::size(peak)) " so far, of " (units::size(ceiling.memory)) } {
                    dt { "Memory" }
                    dd { (bar(memory as f64 / ceiling.memory as f64)) (units::size(memory)) }
                }
            }
            div title="unless it is used before" { dt { "Ends in" } dd { (units::span(remaining)) } }
        }
    }
}

fn bar(share: f64) -> Markup {
    let percent = (share.clamp(0.0, 1.0) * 100.0).round();
    let class = if share > 0.85 { "bar high" } else { "bar" };
    html! { span class=(class) style={ "--share:" (percent) "%" } aria-hidden="true" {} }
}

pub(super) fn buttons(state: &State, entry: &Arc<Entry>, from: &str) -> Markup {
    let secret = html! {
        input type="hidden" name="form" value=(state.gate.logins.form_secret());
        input type="hidden" name="from" value=(from);
    };
    html! {
        form method="post" action={ "/live/" (entry.id) "/interrupt" } {
            (secret)
            button id={ "interrupt-" (entry.id) } title="Interrupt what runs; variables are kept" { "Interrupt" }
        }
        form method="post" action={ "/live/" (entry.id) "/stop" } data-confirm="End this session? Its variables and files are lost." {
            (secret)
            button.danger id={ "stop-" (entry.id) } title="End the session: variables and files are lost" { "Stop" }
        }
    }
}

/// Where one has to log in, one can log out.
pub(super) fn log_out(state: &State) -> Markup {
    html! {
        @if state.gate.tokens.is_some() {
            form method="post" action="/logout" {
                input type="hidden" name="form" value=(state.gate.logins.form_secret());
                button.quiet { "Log out" }
            }
        }
    }
}
