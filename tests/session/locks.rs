//! What code in the container finds closed.

use cellblock::{Session, State, Workspace};

use crate::lab::{Ask as _, Lab, tests};

tests! {
    container: [
        the_root_is_read_only_and_the_workspace_is_not,
        there_is_no_network,
        there_are_no_privileges,
        the_bridge_cannot_be_touched,
        the_limits_are_those_asked_for,
        the_hosts_directory_is_read_only_and_the_only_one,
        the_workspace_is_as_large_as_asked_for,
    ]
}

/// Runs code that must raise, and returns the exception's name and message.
async fn raises(session: &Session, code: &str) -> String {
    let execution = session.cell(code).await;
    let error = execution.error().unwrap_or_else(|| panic!("{}: {code}", execution.status));
    assert_eq!(execution.state, State::Kept);
    error.to_string()
}

async fn the_root_is_read_only_and_the_workspace_is_not(lab: &Lab) {
    let session = lab.session().await;
    for path in ["/x", "/etc/passwd", "/opt/cellblock/x", "/usr/bin/x", "/var/x", "/home/x"] {
        let error = raises(&session, &format!("open('{path}', 'w')")).await;
        assert!(["Read-only", "denied", "No such"].iter().any(|why| error.contains(why)), "{path}: {error}");
    }
    assert!(raises(&session, "open('/x', 'w')").await.contains("Read-only file system"));
    assert_eq!(session.value("import os\nos.getcwd()").await, "'/workspace'");
    assert_eq!(session.value("os.path.realpath('/mnt/data')").await, "'/workspace'");
    for path in ["/workspace/x", "/mnt/data/y", "/tmp/z", "relative"] {
        session.good(format!("with open('{path}', 'w') as file: file.write('ok')")).await;
    }
    assert_eq!(session.value("sorted(os.listdir('/workspace'))").await, "['relative', 'x', 'y']");
    session
        .good("with open('/tmp/run', 'w') as file: file.write('#!/bin/sh\\necho ran')\nos.chmod('/tmp/run', 0o755)")
        .await;
    assert_eq!(session.value("import subprocess\nsubprocess.check_output(['/tmp/run'])").await, "b'ran\\n'");
}

async fn there_is_no_network(lab: &Lab) {
    let session = lab.session().await;
    let code = "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=5)";
    assert!(raises(&session, code).await.contains("unreachable"));
    assert!(raises(&session, "socket.getaddrinfo('example.com', 80)").await.contains("gaierror"));
    assert_eq!(session.value("[name for _, name in socket.if_nameindex()]").await, "['lo']");
    assert!(
        raises(&session, "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)")
            .await
            .contains("Permission")
    );
}

async fn there_are_no_privileges(lab: &Lab) {
    let session = lab.session().await;
    session.good("status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)").await;
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(session.value(&format!("int(status['{capabilities}'], 16)")).await, "0", "{capabilities}");
    }
    assert_eq!(session.value("status['NoNewPrivs'].strip(), status['Seccomp'].strip()").await, "('1', '2')");
    assert_eq!(session.value("import os\nos.getuid() != 0 and os.geteuid() != 0").await, "True");
    assert!(raises(&session, "os.setuid(0)").await.contains("not permitted"));
    assert!(raises(&session, "os.chroot('/tmp')").await.contains("not permitted"));
    assert_eq!(
        session.value("os.path.exists('/var/run/docker.sock') or os.path.exists('/run/docker.sock')").await,
        "False"
    );
}

async fn the_bridge_cannot_be_touched(lab: &Lab) {
    let session = lab.session().await;
    for path in ["/proc/1/mem", "/proc/1/environ", "/proc/1/maps"] {
        let error = raises(&session, &format!("open('{path}', 'rb').read(1)")).await;
        assert!(error.contains("denied") || error.contains("not permitted"), "{path}: {error}");
    }
    assert!(raises(&session, "import os\nos.listdir('/proc/1/fd')").await.contains("denied"));
    // Killed by its own user PID 1 lives on: it has no default action for signals from inside.
    for signal in ["SIGKILL", "SIGSTOP", "SIGINT", "SIGHUP", "SIGUSR1"] {
        session.cell(format!("import os, signal\nos.kill(1, signal.{signal})")).await;
        assert_eq!(session.value("1 + 1").await, "2", "after {signal} to PID 1");
    }
}

async fn the_limits_are_those_asked_for(lab: &Lab) {
    let builder = lab.builder().memory(300 << 20).pids(60).cpus(0.5);
    let session = builder.start().await.expect("a session");
    let code = "import os\ndef first(*paths):\n    for path in paths:\n        if os.path.exists(path): return open(path).read().split()\n\
                (first('/sys/fs/cgroup/memory.max', '/sys/fs/cgroup/memory/memory.limit_in_bytes')[0],\n \
                first('/sys/fs/cgroup/pids.max', '/sys/fs/cgroup/pids/pids.max')[0],\n \
                first('/sys/fs/cgroup/cpu.max', '/sys/fs/cgroup/cpu/cpu.cfs_quota_us')[0])";
    assert_eq!(session.value(code).await, "('314572800', '60', '50000')");
    let code = "import threading\nstop = threading.Event()\nthreads = []\ntry:\n    while len(threads) < 100:\n        \
                threads.append(threading.Thread(target=stop.wait))\n        threads[-1].start()\nexcept RuntimeError as error: print(error)\nstop.set()";
    assert!(session.good(code).await.stdout.text.contains("can't start new thread"));
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn the_hosts_directory_is_read_only_and_the_only_one(lab: &Lab) {
    let session = lab.session().await;
    let error = raises(&session, "open('/run/cellblock-host/x', 'w')").await;
    assert!(error.contains("Read-only file system"), "{error}");
    assert!(raises(&session, "import os\nos.remove('/run/cellblock-host/bridge.sock')").await.contains("Read-only"));
    let code =
        "[line.split()[1] for line in open('/proc/mounts') if line.split()[2] in ('ext4', 'xfs', 'btrfs', 'overlay')]";
    let mounts = session.value(code).await;
    for mount in ["/run/cellblock-host'", "/etc/resolv.conf'", "/etc/hosts'", "/etc/hostname'", "'/'"] {
        assert!(mounts.contains(mount) || mount.starts_with("/run"), "{mounts}");
    }
    assert_eq!(
        mounts.matches("'/").count() - mounts.matches("/etc/").count(),
        1 + usize::from(mounts.contains("-host")),
        "{mounts}"
    );
}

async fn the_workspace_is_as_large_as_asked_for(lab: &Lab) {
    let session = lab.builder().workspace(Workspace::Memory(8 << 20)).start().await.expect("a session");
    let code = "import os\nstat = os.statvfs('/workspace')\nstat.f_blocks * stat.f_frsize";
    assert_eq!(session.value(code).await, (8 << 20).to_string());
    let fill = "with open('big', 'wb') as file:\n    while True: file.write(b'x' * (1 << 20))";
    assert!(raises(&session, fill).await.contains("No space left"));
    session.good("os.remove('big')\nwith open('small', 'w') as file: file.write('x')").await;
}
