//! The engine against a real Docker or Podman, with containers that need no more than a shell.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/engine.rs"]
mod support;

use std::time::{Duration, Instant};

use cellblock::{ContainerId, Engine as _, ImageBuild, ImageTarget, Network, Workspace};
use support::{Fixture, say};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

const BUILT: &str = "cellblock-test-build:base";
const SECONDS_10: Duration = Duration::from_secs(10);

#[tokio::test]
async fn limits_and_locks_hold_inside() {
    let Some(fixture) = Fixture::new("limits").await else { return };
    let mut spec = fixture.spec();
    (spec.memory, spec.cpus, spec.pids) = (256 << 20, 0.5, 77);
    spec.workspace = Workspace::Memory(8 << 20);
    let id = fixture.start(&spec).await;

    let cgroup = fixture
        .sh(&id, "cd /sys/fs/cgroup; if [ -f memory.max ]; then cat memory.max memory.swap.max pids.max cpu.max; else cat memory/memory.limit_in_bytes pids/pids.max cpu/cpu.cfs_quota_us; fi")
        .await;
    let cgroup: Vec<&str> = cgroup.lines().collect();
    let expected: &[&str] =
        if cgroup.len() == 4 { &["268435456", "0", "77", "50000 100000"] } else { &["268435456", "77", "50000"] };
    assert_eq!(cgroup, expected);

    let status = fixture.sh(&id, "cat /proc/self/status").await;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    for capabilities in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(capabilities), "0000000000000000", "{capabilities}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".to_owned(), "2".to_owned()));
    assert_eq!((field("Uid:"), field("Gid:")), ("1000".to_owned(), "1000".to_owned()));

    let end = fixture.run(&id, &["/bin/sh", "-c", "echo x > /x"], b"").await;
    assert_ne!(end.code, Some(0));
    assert!(end.stderr.contains("Read-only file system"), "{}", end.stderr);

    // The first two lines of the file are headings.
    let interfaces = fixture.sh(&id, "cat /proc/net/dev").await;
    assert!(interfaces.lines().skip(2).all(|line| line.trim_start().starts_with("lo:")), "{interfaces}");
    assert_eq!(fixture.sh(&id, "ulimit -Sc; ulimit -Hc").await, "0\n0\n");
}

#[tokio::test]
async fn a_full_tmpfs_is_an_error_in_the_program_that_fills_it() {
    let Some(fixture) = Fixture::new("tmpfs").await else { return };
    let mut spec = fixture.spec();
    spec.memory = 128 << 20;
    spec.workspace = Workspace::Memory(4 << 20);
    let id = fixture.start(&spec).await;
    for directory in ["/tmp", "/workspace", "/dev/shm", "/run/cellblock"] {
        let fill = format!("cd {directory} && ls -a > list && cat /dev/zero > full; rm -f full");
        let end = fixture.run(&id, &["/bin/sh", "-c", &fill], b"").await;
        assert!(end.stderr.contains("No space left"), "{directory}: {}", end.stderr);
    }
    let mounts = fixture.sh(&id, "cat /proc/mounts").await;
    if mounts.contains("nr_inodes") {
        let many = "cd /run/cellblock; i=0; while [ $i -lt 100 ]; do i=$((i+1)); : > $i || exit 9; done";
        assert_ne!(fixture.run(&id, &["/bin/sh", "-c", many], b"").await.code, Some(0), "inodes are limited too");
    } else {
        say("this engine cannot limit the inodes of a tmpfs");
    }
    // What the user cannot write to needs none.
    let open = |line: &&str| line.contains(" rw,") && ![" /sys", " /proc"].iter().any(|place| line.contains(place));
    for line in mounts.lines().filter(|line| line.starts_with("tmpfs ")).filter(open) {
        assert!(line.contains("size="), "{line}");
    }
    assert_eq!(
        fixture.sh(&id, "printf '#!/bin/sh\necho ran' > /workspace/x; chmod +x /workspace/x; /workspace/x").await,
        "ran\n"
    );
}

#[tokio::test]
async fn an_exec_echoes_100_mb() {
    let Some(fixture) = Fixture::new("echo").await else { return };
    let id = fixture.start(&fixture.spec()).await;
    let mut exec = fixture.docker.exec(&id, &["/bin/cat"]).await.unwrap();
    let started = Instant::now();
    let mut stdin = exec.stdin;
    let writer = async move {
        let mut sum = 0_u64;
        for round in 0..1600_u64 {
            let chunk: Vec<u8> = (0..65536_u64).map(|i| ((i * 31 + round) % 251) as u8).collect();
            sum += chunk.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            stdin.write_all(&chunk).await.unwrap();
        }
        stdin.shutdown().await.unwrap();
        (sum, stdin)
    };
    let reader = async {
        let (mut sum, mut total, mut buffer) = (0_u64, 0, vec![0; 256 * 1024]);
        loop {
            let length = exec.stdout.read(&mut buffer).await.unwrap();
            if length == 0 {
                return (sum, total);
            }
            total += length;
            sum += buffer[..length].iter().map(|byte| u64::from(*byte)).sum::<u64>();
        }
    };
    let ((sent, _stdin), (received, total)) = tokio::join!(writer, reader);
    assert_eq!((total, received), (1600 * 65536, sent));
    say(&format!("100 MB in and out in {:?}", started.elapsed()));
    assert_eq!(exec.end.await.unwrap().code, Some(0));
}

#[tokio::test]
async fn stderr_is_apart_bounded_and_in_nobodys_way() {
    let Some(fixture) = Fixture::new("stderr").await else { return };
    let id = fixture.start(&fixture.spec()).await;
    let script = "echo out; head -c 5000000 /dev/zero | tr '\\0' x >&2; echo end >&2; echo more; exit 7";
    let end = fixture.run(&id, &["/bin/sh", "-c", script], b"").await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(7), "out\nmore\n"));
    assert_eq!(end.stderr.len(), 64 * 1024);
    assert!(end.stderr.ends_with("xend\n"));
}

#[tokio::test]
async fn the_end_of_stdin_reaches_the_program_which_can_still_answer() {
    let Some(fixture) = Fixture::new("halfclose").await else { return };
    let id = fixture.start(&fixture.spec()).await;
    let end = fixture.run(&id, &["/bin/sh", "-c", "cat > /tmp/in; wc -c < /tmp/in; echo after"], b"12345").await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "5\nafter\n"));
}

#[tokio::test]
async fn a_program_that_is_not_there_ends_with_126_or_127() {
    let Some(fixture) = Fixture::new("nothere").await else { return };
    let id = fixture.start(&fixture.spec()).await;
    match fixture.docker.exec(&id, &["/no/such/program"]).await {
        Ok(exec) => assert!(matches!(fixture.finish(exec, b"").await.code, Some(126 | 127))),
        Err(error) => assert!(error.to_string().starts_with("cannot run /no/such/program")),
    }
}

#[tokio::test]
async fn a_dropped_exec_is_the_end_of_stdin() {
    let Some(fixture) = Fixture::new("dropped").await else { return };
    let id = fixture.start(&fixture.spec()).await;
    let mut exec = fixture.docker.exec(&id, &["/bin/sh", "-c", "echo ready; cat; : > /workspace/ended"]).await.unwrap();
    let mut ready = [0; 6];
    exec.stdout.read_exact(&mut ready).await.unwrap();
    drop(exec);
    let seen = "for i in 1 2 3 4 5 6 7 8 9 10; do [ -e /workspace/ended ] && exit 0; sleep 0.2; done; exit 1";
    assert_eq!(fixture.run(&id, &["/bin/sh", "-c", seen], b"").await.code, Some(0));
}

#[tokio::test]
async fn a_wait_before_the_start_does_not_miss_a_short_life() {
    let Some(fixture) = Fixture::new("short").await else { return };
    let mut spec = fixture.spec();
    spec.args = ["/bin/sh", "-c", "exit 3"].map(str::to_owned).into();
    let id = fixture.docker.create(&spec).await.unwrap();
    let (exit, started) = tokio::join!(timeout(SECONDS_10, fixture.docker.wait(&id)), fixture.docker.start(&id));
    started.unwrap();
    assert_eq!(exit.unwrap().unwrap().code, Some(3));
    // And after it has been removed.
    assert_eq!(timeout(SECONDS_10, fixture.docker.wait(&id)).await.unwrap().unwrap().code, Some(3));
}

#[tokio::test]
async fn a_container_killed_or_removed_while_waited_for_is_an_exit() {
    let Some(fixture) = Fixture::new("removed").await else { return };
    let id = fixture.start(&fixture.spec()).await;
    let remove = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        fixture.docker.remove(&id).await
    };
    let (exit, removed) = tokio::join!(timeout(SECONDS_10, fixture.docker.wait(&id)), remove);
    removed.unwrap();
    assert_eq!(exit.unwrap().unwrap().code, Some(137));
    fixture.docker.remove(&id).await.unwrap();
    fixture.docker.kill(&id).await.unwrap();
    assert_eq!(fixture.docker.pid(&id).await.unwrap(), None);
    assert!(fixture.docker.exec(&id, &["/bin/true"]).await.unwrap_err().is_session_gone());
    assert!(fixture.docker.start(&id).await.unwrap_err().is_session_gone());

    // Never started.
    let id = fixture.docker.create(&fixture.spec()).await.unwrap();
    let (exit, removed) = tokio::join!(timeout(SECONDS_10, fixture.docker.wait(&id)), fixture.docker.remove(&id));
    removed.unwrap();
    exit.unwrap().unwrap();

    // Never there.
    let exit = fixture.docker.wait(&ContainerId("cellblock-never-there".to_owned())).await.unwrap();
    assert_eq!(exit.code, None);
}

#[tokio::test]
async fn containers_are_found_by_all_their_labels() {
    let Some(fixture) = Fixture::new("list").await else { return };
    let mut spec = fixture.spec();
    spec.labels.insert("cellblock.test.one".to_owned(), std::process::id().to_string());
    let long = "x".repeat(300);
    spec.annotations.insert("cellblock.test.long".to_owned(), long.clone());
    let id = fixture.docker.create(&spec).await.unwrap();
    let pid = std::process::id().to_string();
    let labels = [("cellblock.test", "engine"), ("cellblock.test.one", pid.as_str())];
    let listed = fixture.docker.list(&labels).await.unwrap();
    let [one] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((&one.id, &one.name, one.state.as_str()), (&id, &spec.name, "created"));
    assert_eq!(one.labels.get("cellblock.test.long"), Some(&long));
    assert!(one.created > 1_700_000_000);
    assert!(fixture.docker.list(&[labels[1], ("cellblock.test", "other")]).await.unwrap().is_empty());

    let error = fixture.docker.create(&spec).await.unwrap_err();
    assert!(error.is_name_taken(), "{error:?}");
    fixture.docker.remove(&id).await.unwrap();
}

#[tokio::test]
async fn what_the_engine_refuses_is_told_in_its_kind() {
    let Some(fixture) = Fixture::new("refused").await else { return };
    let mut spec = fixture.spec();
    spec.image = "cellblock:no-such-tag".to_owned();
    assert!(fixture.docker.create(&spec).await.unwrap_err().is_image_missing());

    let mut spec = fixture.spec();
    spec.runtime = Some("no-such-runtime".to_owned());
    let error = fixture.docker.create(&spec).await.unwrap_err();
    assert!(error.is_usage() && error.hint().unwrap().contains("no-such-runtime"), "{error:?}");

    let mut spec = fixture.spec();
    spec.host_directory = Some("/no/such/directory".into());
    fixture.refused(&spec).await;
    assert!(!std::path::Path::new("/no/such/directory").exists());

    let mut spec = fixture.spec();
    spec.network = Network::Named("cellblock-no-such-network".to_owned());
    let error = fixture.refused(&spec).await;
    assert!(error.is_usage(), "{error:?}");
    assert!(fixture.docker.list(&[("cellblock.test.name", "refused")]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_host_directory_is_read_only() {
    let Some(fixture) = Fixture::new("mount").await else { return };
    if !fixture.docker.mounts_host_directories() {
        return say("skipped: not a local engine");
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "from the host").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let mut spec = fixture.spec();
    spec.host_directory = Some(directory.path().to_owned());
    let id = fixture.start(&spec).await;
    assert_eq!(fixture.sh(&id, "cat /run/cellblock-host/file").await, "from the host");
    let end = fixture.run(&id, &["/bin/sh", "-c", "echo x > /run/cellblock-host/x"], b"").await;
    assert!(end.stderr.contains("Read-only file system"), "{}", end.stderr);
    let pid = fixture.docker.pid(&id).await.unwrap().unwrap();
    let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert!(cgroup.contains(&id.0), "{cgroup}");
}

#[tokio::test]
async fn a_workspace_on_disk_goes_with_its_container() {
    let Some(fixture) = Fixture::new("disk").await else { return };
    let mut spec = fixture.spec();
    spec.workspace = Workspace::Disk;
    let id = fixture.start(&spec).await;
    let mounts = fixture.sh(&id, "cat /proc/mounts").await;
    let workspace = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/workspace")).unwrap();
    assert!(!workspace.starts_with("tmpfs"), "{workspace}");
    let volumes = fixture.volumes_of(&id).await;
    assert_eq!(volumes.len(), 1);
    fixture.docker.kill(&id).await.unwrap();
    fixture.docker.wait(&id).await.unwrap();
    timeout(SECONDS_10, async {
        while fixture.volume_exists(&volumes[0]).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
}

/// Fast where the image was built before: the steps are in the engine's cache.
#[tokio::test]
async fn the_embedded_files_make_a_kernel_image() {
    let Some(fixture) = Fixture::new("build").await else { return };
    let mut build = ImageBuild::new(ImageTarget::Base).tag(BUILT);
    if let Ok(network) = std::env::var("CELLBLOCK_TEST_BUILD_NETWORK") {
        build = build.network(network);
    }
    let mut events = Vec::new();
    let id = build.run(&fixture.docker, |event| events.push(event)).await.unwrap();
    let image = fixture.docker.image(BUILT).await.unwrap().unwrap();
    assert_eq!(image.id, id);
    assert_eq!(image.labels.get("dev.cellblock.image").map(String::as_str), Some("base"));
    let last = events.last().unwrap();
    assert!(last.step == last.total && last.total > 1, "{last:?}");
    assert!(events.is_sorted_by_key(|event| event.step));
    assert!(fixture.docker.image("cellblock:no-such-tag").await.unwrap().is_none());
}
