//! `cellblock serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cellblock::Docker;
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use super::container::ContainerArgs;
use super::exit::Exit;
use super::printer::{Printer, Usage};
use super::units;
use crate::serve::Server;
use crate::serve::config::{Certificate, Config, Limits, Sessions};
use crate::serve::http::auth::Secret;

/// The library takes a cell of a day, and a session of thirty.
const DAY: Duration = Duration::from_secs(24 * 3600);
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::new(LOCALHOST, 8080), help_heading = "Listening")]
    listen: SocketAddr,
    /// Where to listen with TLS [default: with a certificate, the address of `--listen`, which is then TLS alone]
    #[arg(long, value_name = "ADDRESS", help_heading = "Listening")]
    tls_listen: Option<SocketAddr>,
    /// Use a certificate of our own authority, which clients have to trust
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"], help_heading = "Listening")]
    tls_self_signed: bool,
    /// The certificate with its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Listening")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Listening")]
    tls_key: Option<PathBuf>,

    /// Let in who bears a token of this file, one a line [default: one that is made and printed]
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    token_file: Option<PathBuf>,
    /// Let everybody in; on this machine's own addresses only
    #[arg(long, conflicts_with = "token_file", help_heading = "Access")]
    no_auth: bool,
    /// Give out tokens as App Service's managed identity does, for Azure's `DefaultAzureCredential`
    #[arg(long, help_heading = "Access")]
    msi: bool,
    /// The secret of `--msi` [default: one that is made and printed]
    #[arg(
        long,
        value_name = "SECRET",
        env = "CELLBLOCK_MSI_SECRET",
        hide_env_values = true,
        requires = "msi",
        help_heading = "Access"
    )]
    msi_secret: Option<String>,
    /// A name that clients may call this server by, besides addresses and `localhost`
    #[arg(long = "allow-host", value_name = "NAME", help_heading = "Access")]
    hosts: Vec<String>,
    /// An origin whose pages may call this server, such as `https://app.example`
    #[arg(long = "allow-origin", value_name = "ORIGIN", value_parser = origin, help_heading = "Access")]
    origins: Vec<String>,

    /// Keep so many sessions started ahead
    #[arg(long, value_name = "COUNT", default_value_t = 0, help_heading = "Sessions")]
    warm: usize,
    /// The most sessions at a time
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = at_least_one, help_heading = "Sessions")]
    max_sessions: usize,
    /// End a session after this long without a call
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "300s", help_heading = "Sessions")]
    idle_timeout: Duration,
    /// End a session this long after it was given out
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "24h", help_heading = "Sessions")]
    max_life: Duration,
    /// The longest time of an execution
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "220s", help_heading = "Sessions")]
    timeout: Duration,
    /// The most executions of one session that run or wait
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = at_least_one, help_heading = "Sessions")]
    max_queue: usize,
    /// Start no session when the machine has less memory left
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "512m", help_heading = "Sessions")]
    memory_reserve: u64,
    /// Let sessions go on when the server ends; its next start takes them over
    #[arg(long, help_heading = "Sessions")]
    keep_sessions: bool,

    /// The longest body that is no upload
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "16m", help_heading = "Limits")]
    max_body: u64,
    /// The longest upload
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "128m", help_heading = "Limits")]
    max_upload: u64,
    /// The most connections at a time
    #[arg(long, value_name = "COUNT", default_value_t = 4096, value_parser = at_least_one, help_heading = "Limits")]
    max_connections: usize,
    /// The most requests a second of callers with a token, of viewers of the page, and of all others [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    max_rate: Option<u32>,
    /// How long a client may take for a request's head, between two parts of its body, and until it reads more of an answer
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "30s", help_heading = "Limits")]
    client_timeout: Duration,
    /// How long running executions may go on when the server is told to end
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "30s", help_heading = "Limits")]
    shutdown_grace: Duration,
    /// How to write the log, on stderr [default: text on a terminal, and else JSON]
    #[arg(long, value_enum, value_name = "FORM", help_heading = "Operation")]
    pub(crate) log_format: Option<LogFormat>,
    /// Where certificates and kept sessions are noted [default: `$XDG_STATE_HOME/cellblock/serve`]
    #[arg(long, value_name = "DIR", help_heading = "Operation")]
    state_dir: Option<PathBuf>,

    #[command(flatten)]
    container: ContainerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// As a browser writes it: nothing after the host and its port.
fn origin(text: &str) -> Result<String, String> {
    let site = text.split_once("://").map(|(_, site)| site).unwrap_or_default();
    if site.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) || site.contains(['/', '*']) {
        return Err("expected an origin such as `https://app.example`".into());
    }
    Ok(text.to_ascii_lowercase())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err("expected a whole number, at least 1".into()),
    }
}

pub(crate) async fn serve(args: &ServeArgs, printer: &mut Printer) -> Result<Exit> {
    let config = config(args)?;
    let (token, secret) = (
        config.tokens.as_ref().filter(|_| args.token_file.is_none()).and_then(|tokens| tokens.first().cloned()),
        config.identity.clone().filter(|_| args.msi_secret.is_none()),
    );
    check_image(args.container.image()).await?;
    // Before anything says that we are there: from then on a signal is an orderly end.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let server = Server::bind(config).await?;
    for (scheme, address) in [("http", server.http), ("https", server.https)] {
        if let Some(address) = address {
            printer.line(format!("listening on {scheme}://{address}"))?;
        }
    }
    if let Some(token) = token {
        printer.line(format!("token {}", token.reveal()))?;
    }
    if let Some(authority) = &server.authority {
        printer.line(format!("certificate authority {}", authority.display()))?;
    }
    if let (Some(secret), Some(address)) = (secret, server.http.or(server.https)) {
        let scheme = if server.http.is_some() { "http" } else { "https" };
        printer.line(format!("IDENTITY_ENDPOINT={scheme}://{address}/msi/token"))?;
        printer.line(format!("IDENTITY_HEADER={}", secret.reveal()))?;
    }
    server.begin().await;
    printer.line("ready")?;
    server
        .run(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await;
    Ok(Exit::Ok)
}

/// An image that is missing would be missed by every session. An engine that is away may come back.
async fn check_image(image: &str) -> Result<()> {
    match Docker::connect().await {
        Ok(engine) if engine.image(image).await?.is_none() => {
            bail!("there is no image {image}: `cellblock image build` builds one")
        }
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "no engine answers yet");
            Ok(())
        }
    }
}

fn config(args: &ServeArgs) -> Result<Config> {
    let usage = |text: &str| anyhow::Error::new(Usage(text.to_owned()));
    let state = || state_directory(args.state_dir.as_deref());
    let certificate = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(Certificate::Files { certificate: certificate.clone(), key: key.clone() })
        }
        _ if args.tls_self_signed => Some(Certificate::SelfSigned(state()?.join("tls"))),
        _ => None,
    };
    let (http, https) = match (certificate, args.tls_listen) {
        (Some(certificate), None) => (None, Some((args.listen, certificate))),
        (Some(certificate), Some(address)) => (Some(args.listen), Some((address, certificate))),
        (None, None) => (Some(args.listen), None),
        (None, Some(_)) => {
            return Err(usage("`--tls-listen` needs `--tls-self-signed`, or `--tls-cert` and `--tls-key`"));
        }
    };
    let addresses: Vec<SocketAddr> = http.into_iter().chain(https.as_ref().map(|(address, _)| *address)).collect();
    let tokens = match &args.token_file {
        _ if args.no_auth => {
            if let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback()) {
                return Err(usage(&format!("`--no-auth` lets in everybody who reaches {open}: listen on 127.0.0.1")));
            }
            None
        }
        Some(file) => Some(tokens(file)?),
        None => Some(vec![Secret::random()]),
    };
    let identity = match &args.msi_secret {
        Some(secret) => {
            Some(Secret::new(secret).ok_or_else(|| usage("the secret of `--msi` has at least 16 characters"))?)
        }
        None => args.msi.then(Secret::random),
    };
    if args.container.has_own_work_directory() {
        return Err(usage("`--workdir` would give all sessions the same directory"));
    }
    for (option, span, most) in [
        ("--timeout", args.timeout, DAY),
        ("--idle-timeout", args.idle_timeout, 30 * DAY),
        // A session's container outlives its time here by what it may wait in the pool.
        ("--max-life", args.max_life, 29 * DAY),
    ] {
        if span > most {
            return Err(usage(&format!("`{option}` is at most {} h", most.as_secs() / 3600)));
        }
    }
    if args.warm > args.max_sessions {
        return Err(usage("`--warm` is more than `--max-sessions`"));
    }
    Ok(Config {
        http,
        https,
        tokens,
        identity,
        hosts: args.hosts.clone(),
        origins: args.origins.clone(),
        sessions: Sessions {
            template: args.container.builder()?,
            ceiling: args.container.ceiling(),
            most: args.max_sessions,
            warm: args.warm,
            idle: args.idle_timeout,
            life: args.max_life,
            timeout: args.timeout,
            queue: args.max_queue,
            memory_reserve: args.memory_reserve,
        },
        limits: Limits {
            body: usize::try_from(args.max_body).unwrap_or(usize::MAX),
            upload: args.max_upload,
            connections: args.max_connections,
            rate: args.max_rate,
            patience: args.client_timeout,
        },
        shutdown_grace: args.shutdown_grace,
        keep: if args.keep_sessions { Some(state()?) } else { None },
    })
}

fn tokens(file: &Path) -> Result<Vec<Secret>> {
    let place = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read the tokens in {place}"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tokens: Option<Vec<Secret>> = lines.map(Secret::new).collect();
    match tokens {
        Some(tokens) if !tokens.is_empty() => Ok(tokens),
        _ => Err(Usage(format!(
            "{place} has no usable token: one a line, each of at least 16 printable characters without spaces"
        ))
        .into()),
    }
}

fn state_directory(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("cellblock/serve"))
        .ok_or_else(|| Usage("neither `XDG_STATE_HOME` nor `HOME` is set: give `--state-dir`".into()).into())
}
