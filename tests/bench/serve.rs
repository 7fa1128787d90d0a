//! Sessions over HTTP: what the way costs, what the pool saves, many at once, and whether anything grows.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cellblock::LinkPolicy;
use reqwest::Client;
use serde_json::{Value, json};

use crate::report::{self, Sample};
use crate::support::{CODE, Result, call, image, order, session};

const VERSION: &str = "2024-02-02-preview";
const ROUNDS: usize = 40;
const CALLS: usize = 10;
const WARM_UP: usize = 30;
const FIRSTS: usize = 6;
const AT_ONCE: usize = 50;
const CELLS: usize = 20;

/// A server process with a client, which ends with it.
struct Server {
    child: Child,
    address: String,
    client: Client,
}

impl Server {
    fn start(args: &[&str]) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cellblock"))
            .args(["serve", "--no-auth", "--listen", "127.0.0.1:0", "--image", image(), "--memory-reserve", "64m"])
            .args(args)
            .env("CELLBLOCK_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = None;
        for line in BufReader::new(child.stdout.take().ok_or("no stdout")?).lines() {
            match line? {
                line if line == "ready" => break,
                line => address = line.strip_prefix("listening on ").map(str::to_owned).or(address),
            }
        }
        Ok(Self { child, address: address.ok_or("the server did not start")?, client: Client::new() })
    }

    /// Runs the code and returns how long it took. Anything but the right result is an error.
    async fn call(&self, identifier: &str) -> Result<Duration> {
        let url = format!("{}/code/execute?identifier={identifier}&api-version={VERSION}", self.address);
        let begun = Instant::now();
        let answer = self.client.post(url).json(&json!({"properties": {"code": CODE}})).send().await?;
        let body: Value = answer.json().await?;
        let took = begun.elapsed();
        match &body["properties"]["result"] {
            result if *result == 2 => Ok(took),
            _ => Err(format!("{CODE} gave {body}").into()),
        }
    }

    async fn end(&self, identifier: &str) -> Result<()> {
        let url = format!("{}/session?identifier={identifier}&api-version=2025-02-02-preview", self.address);
        self.client.delete(url).send().await?.error_for_status()?;
        Ok(())
    }

    async fn wait_for_pool(&self, size: u64) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(600);
        while Instant::now() < until {
            let body: Value = self.client.get(format!("{}/ready", self.address)).send().await?.json().await?;
            if body["warm"] == size {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err("the pool was not filled".into())
    }

    /// What the server holds: resident kilobytes, descriptors, containers; and the directories of all sessions, which tell something where no others run.
    fn holds(&self) -> Result<[usize; 4]> {
        let pid = self.child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let resident = resident.trim().trim_end_matches(" kB").parse()?;
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        let list = Command::new("docker").args(["ps", "-a", "--format", "{{.Label \"cellblock.owner\"}}"]).output()?;
        let owner = format!(" {pid} ");
        let containers = String::from_utf8(list.stdout)?.lines().filter(|line| line.contains(&owner)).count();
        let directories = std::fs::read_dir("/run/cellblock").map_or(0, Iterator::count);
        Ok([resident, descriptors, containers, directories])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

pub(crate) async fn measure(churn: usize) -> Result<()> {
    warm().await?;
    first().await?;
    at_once().await?;
    grows(churn).await
}

async fn warm() -> Result<()> {
    let library = session(LinkPolicy::Auto).start().await?;
    let server = Server::start(&[])?;
    let (mut direct, mut http) = (Sample::new("library"), Sample::new("code/execute over HTTP"));
    for _ in 0..WARM_UP {
        call(&library).await?;
        server.call("a").await?;
    }
    for round in 0..ROUNDS {
        for arm in order(round, 2) {
            for _ in 0..CALLS {
                if arm == 0 {
                    direct.extend([call(&library).await?]);
                } else {
                    http.extend([server.call("a").await?]);
                }
            }
        }
    }
    report::table("warm call 1+1 over HTTP", &[&direct, &http]);
    report::ratio("p50, HTTP / library", http.median(), direct.median(), 1.5);
    library.stop().await?;
    Ok(())
}

async fn first() -> Result<()> {
    let (cold, pool) = (Server::start(&[])?, Server::start(&["--warm", "1"])?);
    let (mut without, mut with) = (Sample::new("without a pool"), Sample::new("with a pool"));
    for round in 0..FIRSTS {
        pool.wait_for_pool(1).await?;
        for arm in order(round, 2) {
            let (server, sample) = if arm == 0 { (&cold, &mut without) } else { (&pool, &mut with) };
            sample.extend([server.call("a").await?]);
            server.end("a").await?;
            pool.wait_for_pool(1).await?;
        }
    }
    report::table("first call of a session", &[&without, &with]);
    let metrics = pool.client.get(format!("{}/metrics", pool.address)).send().await?.text().await?;
    let in_time = format!("cellblock_hand_over_seconds_bucket{{le=\"0.005\"}} {FIRSTS}");
    report::verdict("each is handed over by the server within 5 ms", metrics.lines().any(|line| line == in_time));
    report::ratio("p50, with / without", with.median(), without.median(), 0.1);
    Ok(())
}

async fn at_once() -> Result<()> {
    let size = AT_ONCE.to_string();
    let server = Server::start(&["--warm", &size])?;
    server.wait_for_pool(AT_ONCE as u64).await?;
    let sessions = (0..AT_ONCE).map(|number| {
        let server = &server;
        async move {
            let mut times = Vec::with_capacity(CELLS);
            for _ in 0..CELLS {
                times.push(server.call(&number.to_string()).await?);
            }
            Result::Ok(times)
        }
    });
    let mut sample = Sample::new(format!("{AT_ONCE} sessions, {CELLS} cells each"));
    for times in futures_util::future::join_all(sessions).await {
        sample.extend(times?);
    }
    report::table("many sessions at once", &[&sample]);
    report::ratio("p99 / p50", sample.percentile(99), sample.median(), 10.0);
    Ok(())
}

/// Sessions come and go, some at a time: what is held after most of them is what was held after the first.
async fn grows(churn: usize) -> Result<()> {
    const ABREAST: usize = 4;
    let server = Server::start(&["--warm", "4"])?;
    let rounds = (churn / ABREAST).max(4);
    let mut before = [0; 4];
    for round in 0..rounds {
        let uses = (0..ABREAST).map(|lane| {
            let (server, identifier) = (&server, format!("{round}-{lane}"));
            async move {
                server.call(&identifier).await?;
                server.end(&identifier).await
            }
        });
        for used in futures_util::future::join_all(uses).await {
            used?;
        }
        if round == rounds / 10 {
            server.wait_for_pool(4).await?;
            before = server.holds()?;
        }
    }
    server.wait_for_pool(4).await?;
    let after = server.holds()?;
    report::heading(&format!("{} sessions made, used, ended", rounds * ABREAST));
    for (index, what) in ["resident kB", "descriptors", "containers", "directories"].into_iter().enumerate() {
        let room = if index == 0 { before[0] / 10 + 1024 } else { 2 };
        report::verdict(
            &format!("{what}: {} after a tenth, {} at the end", before[index], after[index]),
            after[index] <= before[index] + room,
        );
    }
    Ok(())
}
