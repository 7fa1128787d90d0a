//! A real engine, and an image in it that runs any command.

use std::collections::HashMap;

use bollard::query_parameters::{BuildImageOptionsBuilder, InspectContainerOptions};
use cellblock::{ContainerId, ContainerSpec, Docker, Engine as _, Error, Exec};
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const IMAGE: &str = "cellblock-test-engine";

/// How long a container of these tests lives if nobody removes it.
const LIFE: &str = "120";

pub(crate) struct Fixture {
    pub(crate) docker: Docker,
    client: bollard::Docker,
    name: &'static str,
}

/// What a program left.
pub(crate) struct Ended {
    pub(crate) code: Option<i64>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Prints what the reader of the test's output must know.
#[expect(clippy::print_stderr, reason = "the test's output is for people")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

fn skip(why: &str) {
    assert!(std::env::var_os("CELLBLOCK_REQUIRE_ENGINE").is_none(), "{why}");
    say(&format!("skipped: {why}"));
}

impl Fixture {
    /// None, with a word about it, where there is no engine or no image to start from.
    pub(crate) async fn new(name: &'static str) -> Option<Self> {
        let docker = match Docker::connect().await {
            Ok(docker) => docker,
            Err(error) => {
                skip(&format!("no engine: {error}"));
                return None;
            }
        };
        let client = bollard::Docker::connect_with_host(docker.address()).unwrap();
        let chosen = std::env::var("CELLBLOCK_TEST_IMAGE").ok();
        for image in chosen.as_deref().map_or(vec!["cellblock:base", "cellblock:data"], |image| vec![image]) {
            if client.inspect_image(image).await.is_ok() {
                bare(&client, image).await;
                return Some(Self { docker, client, name });
            }
        }
        skip("no kernel image, and CELLBLOCK_TEST_IMAGE names no other");
        None
    }

    pub(crate) fn spec(&self) -> ContainerSpec {
        let mut spec = ContainerSpec::new(format!("cellblock-test-{}-{}", self.name, std::process::id()), IMAGE);
        spec.args = ["/bin/sleep", LIFE].map(str::to_owned).into();
        spec.labels.insert("cellblock.test".to_owned(), "engine".to_owned());
        spec.labels.insert("cellblock.test.name".to_owned(), self.name.to_owned());
        spec
    }

    pub(crate) async fn start(&self, spec: &ContainerSpec) -> ContainerId {
        let id = self.docker.create(spec).await.unwrap();
        self.docker.start(&id).await.unwrap();
        id
    }

    /// The error of a container that cannot be: engines differ in whether they notice at its creation or at its start.
    pub(crate) async fn refused(&self, spec: &ContainerSpec) -> Error {
        match self.docker.create(spec).await {
            Ok(id) => {
                let error = self.docker.start(&id).await.unwrap_err();
                self.docker.remove(&id).await.unwrap();
                error
            }
            Err(error) => error,
        }
    }

    pub(crate) async fn run(&self, id: &ContainerId, argv: &[&str], stdin: &[u8]) -> Ended {
        self.finish(self.docker.exec(id, argv).await.unwrap(), stdin).await
    }

    pub(crate) async fn finish(&self, mut exec: Exec, stdin: &[u8]) -> Ended {
        let mut stdout = String::new();
        exec.stdin.write_all(stdin).await.unwrap();
        exec.stdin.shutdown().await.unwrap();
        exec.stdout.read_to_string(&mut stdout).await.unwrap();
        let end = exec.end.await.unwrap();
        Ended { code: end.code, stdout, stderr: String::from_utf8(end.stderr).unwrap() }
    }

    /// The output of a script that must succeed.
    pub(crate) async fn sh(&self, id: &ContainerId, script: &str) -> String {
        let end = self.run(id, &["/bin/sh", "-c", script], b"").await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        end.stdout
    }

    pub(crate) async fn volumes_of(&self, id: &ContainerId) -> Vec<String> {
        let inspected = self.client.inspect_container(&id.0, None::<InspectContainerOptions>).await.unwrap();
        inspected.mounts.unwrap_or_default().into_iter().filter_map(|mount| mount.name).collect()
    }

    pub(crate) async fn volume_exists(&self, volume: &str) -> bool {
        self.client.inspect_volume(volume).await.is_ok()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // The containers end by themselves; this only makes it soon. The test's own runtime may be ending.
        let (docker, name) = (self.docker.clone(), self.name);
        let remove = async move {
            for container in docker.list(&[("cellblock.test.name", name)]).await.unwrap_or_default() {
                let _ = docker.remove(&container.id).await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _ = std::thread::spawn(move || runtime.block_on(remove)).join();
    }
}

/// Makes an image with the files of another and no program of its own.
async fn bare(client: &bollard::Docker, from: &str) {
    let dockerfile = format!("FROM {from}\nENTRYPOINT []\n");
    let mut context = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(dockerfile.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    context.append_data(&mut header, "Dockerfile", dockerfile.as_bytes()).unwrap();
    let body = bollard::body_full(context.into_inner().unwrap().into());
    let labels = HashMap::from([("cellblock.test", "engine")]);
    let options = BuildImageOptionsBuilder::new().t(IMAGE).labels(&labels).build();
    let mut build = client.build_image(options, None, Some(body));
    while let Some(progress) = build.next().await {
        assert!(progress.unwrap().error_detail.is_none());
    }
}
