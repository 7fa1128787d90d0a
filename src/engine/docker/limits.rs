//! Limits: whether they fit each other, and whether the engine holds them.

use bollard::Docker as Client;
use bollard::errors::Error as ClientError;
use serde::Deserialize;

use super::inspect::{InspectedLimits, reread};
use super::user::Mapping;
use crate::Error;
use crate::engine::{ContainerSpec, Workspace};
use crate::error::Kind;

const MIB: u64 = 1 << 20;

/// What the bridge's private tmpfs holds.
pub(super) const RUN_SIZE: u64 = MIB;
pub(super) const RUN_INODES: u64 = 64;

/// The least memory that a Python kernel starts in.
const LEAST_MEMORY: u64 = 64 * MIB;

/// The fewest processes and threads that the bridge and a kernel start with.
const LEAST_PROCESSES: u32 = 16;

/// The sizes of the container's tmpfs mounts. They count as its memory, so together they stay below three quarters of it: a
/// full one must be an error in the program that fills it, not the end of the container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) tmp: u64,
    pub(super) shm: u64,
    pub(super) workspace: Option<u64>,
}

impl Sizes {
    /// The sizes for these limits.
    pub(super) fn of(spec: &ContainerSpec) -> Result<Self, Error> {
        let refuse =
            |text: String, flag: &str| Err(Error::new(Kind::Usage, text).with_hint(format!("`{flag}` sets it")));
        if spec.memory < LEAST_MEMORY {
            let (given, least) = (size(spec.memory), size(LEAST_MEMORY));
            return refuse(format!("a memory limit of {given} is too small: at least {least} are needed"), "--memory");
        }
        if i64::try_from(spec.memory).is_err() {
            return refuse(format!("a memory limit of {} is too large", size(spec.memory)), "--memory");
        }
        // Written so that a NaN is refused too. Engines read 0 as "no limit".
        if !(0.01..=100_000.0).contains(&spec.cpus) {
            let text = format!("a limit of {} CPUs is not one: at least 0.01 are needed", spec.cpus);
            return refuse(text, "--cpus");
        }
        if spec.pids < LEAST_PROCESSES {
            let given = spec.pids;
            let text = format!(
                "a limit of {given} processes is too small: with their threads at least {LEAST_PROCESSES} are needed"
            );
            return refuse(text, "--pids");
        }
        let mut sizes =
            Self { tmp: (64 * MIB).min(spec.memory / 8), shm: (64 * MIB).min(spec.memory / 16), workspace: None };
        if let Workspace::Memory(workspace) = spec.workspace {
            let most = (spec.memory / 4 * 3).saturating_sub(sizes.tmp + sizes.shm + 4 * RUN_SIZE);
            if workspace < MIB {
                let (given, least) = (size(workspace), size(MIB));
                let text = format!("a workspace of {given} is too small: at least {least} are needed");
                return refuse(text, "--workspace-size");
            }
            if workspace > most {
                let text = format!(
                    "a workspace of {} in memory does not fit a memory limit of {}: the most is {}",
                    size(workspace),
                    size(spec.memory),
                    size(most)
                );
                return Err(Error::new(Kind::Usage, text).with_hint(
                    "raise `--memory`, lower `--workspace-size`, or put the workspace on disk: `--workspace disk`",
                ));
            }
            sizes.workspace = Some(workspace);
        }
        Ok(sizes)
    }
}

/// How many inodes a tmpfs of this size may have; each takes about a kilobyte of memory beyond the size.
pub(super) fn inodes(size: u64) -> u64 {
    (size / 8192).clamp(256, 65_536)
}

fn size(bytes: u64) -> String {
    if bytes >= MIB { format!("{} MiB", bytes / MIB) } else { format!("{bytes} bytes") }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Info {
    #[serde(rename = "ID")]
    id: Option<String>,
    memory_limit: Option<bool>,
    swap_limit: Option<bool>,
    pids_limit: Option<bool>,
    cpu_cfs_quota: Option<bool>,
    security_options: Option<Vec<String>>,
}

/// What the engine can hold a container to, by its own account.
#[derive(Debug)]
pub(super) struct Abilities {
    /// The engine's own id, if it keeps one.
    pub(super) engine: Option<String>,
    missing: Vec<&'static str>,
    seccomp: bool,
    host_swaps: bool,
    pub(super) mapping: Mapping,
}

impl Abilities {
    pub(super) async fn ask(client: &Client, is_podman: bool, is_local: bool) -> Result<Self, ClientError> {
        Ok(Self::new(&reread(client.info().await)?, is_podman, !is_local || this_host_swaps()))
    }

    fn new(info: &Info, is_podman: bool, host_swaps: bool) -> Self {
        // Podman's own account is not to be relied on: what it did is seen in the container.
        let flags = [
            ("memory", info.memory_limit),
            ("process", info.pids_limit),
            ("CPU", info.cpu_cfs_quota),
            ("swap", info.swap_limit.filter(|_| host_swaps)),
        ];
        let missing = flags.into_iter().filter(|(_, flag)| *flag == Some(false) && !is_podman).map(|(name, _)| name);
        let seccomp = info.security_options.as_ref().is_none_or(|options| {
            options.iter().any(|option| option.contains("name=seccomp") && !option.contains("profile=unconfined"))
        });
        // Podman answers Docker's question with another one each time.
        let engine = info.id.clone().filter(|id| !id.is_empty() && !is_podman);
        let says = |what: &str| info.security_options.iter().flatten().any(|option| option.contains(what));
        let mapping = match () {
            () if says("name=rootless") => Mapping::Rootless,
            () if says("name=userns") => Mapping::Others,
            () => Mapping::Same,
        };
        Self { engine, missing: missing.collect(), seccomp, host_swaps, mapping }
    }

    /// Checks a created container: a limit that the engine ignores is an error.
    pub(super) fn check(&self, spec: &ContainerSpec, got: &InspectedLimits, warnings: &[String]) -> Result<(), Error> {
        let mut ignored = self.missing.clone();
        let mut expect = |name, holds: bool| {
            if !holds && !ignored.contains(&name) {
                ignored.push(name);
            }
        };
        let memory = i64::try_from(spec.memory).unwrap_or(i64::MAX);
        expect("memory", got.memory == Some(memory));
        expect("swap", got.memory_swap == Some(memory) || !self.host_swaps);
        expect("process", got.pids_limit == Some(spec.pids.into()));
        expect("CPU", got.cpus().is_some_and(|cpus| (cpus - spec.cpus).abs() <= 0.01 * spec.cpus));
        // gVisor and its like bring their own.
        expect("system call", self.seccomp || spec.runtime.is_some());
        expect("read-only root", got.readonly_rootfs == Some(true));
        if ignored.is_empty() {
            // A warning about swap tells that the host could not limit any.
            for warning in warnings {
                tracing::warn!(container = spec.name, warning, "the container engine warns");
            }
            return Ok(());
        }
        let ignored: Vec<String> = ignored.iter().map(|name| format!("the {name} limit")).collect();
        let text = format!("the container engine does not hold {} of container {}", ignored.join(" and "), spec.name);
        let error = Error::new(Kind::Engine, text).with_hint(
            "the kernel needs the cgroup controllers memory, cpu and pids; a rootless engine needs them delegated to its user, \
             on cgroup v2; and swap needs the boot parameter swapaccount=1, or none on the host",
        );
        Err(if warnings.is_empty() { error } else { error.with_source(warnings.join("; ")) })
    }
}

impl InspectedLimits {
    fn cpus(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "CPU limits are small numbers")]
        let ratio = |of: Option<i64>, to: i64| of.filter(|of| *of > 0).map(|of| of as f64 / to as f64);
        ratio(self.nano_cpus, 1_000_000_000)
            .or_else(|| ratio(self.cpu_quota, self.cpu_period.filter(|period| *period > 0).unwrap_or(100_000)))
    }
}

fn this_host_swaps() -> bool {
    // The first line is a heading. Where there is no such file, nothing is known.
    std::fs::read_to_string("/proc/swaps").map_or(true, |swaps| swaps.lines().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ContainerSpec {
        ContainerSpec::new("cellblock-0-test", "cellblock:data")
    }

    fn got(spec: &ContainerSpec) -> InspectedLimits {
        InspectedLimits {
            memory: Some(1 << 30),
            memory_swap: Some(1 << 30),
            nano_cpus: Some(1_000_000_000),
            pids_limit: Some(spec.pids.into()),
            readonly_rootfs: Some(true),
            ..InspectedLimits::default()
        }
    }

    fn able() -> Abilities {
        Abilities { engine: None, missing: Vec::new(), seccomp: true, host_swaps: true, mapping: Mapping::Same }
    }

    #[test]
    fn tmpfs_sizes_stay_below_the_memory_limit() {
        let mut spec = spec();
        assert_eq!(
            Sizes::of(&spec).unwrap(),
            Sizes { tmp: 64 * MIB, shm: 64 * MIB, workspace: Some(256 * MIB) },
            "the default"
        );
        spec.memory = 128 * MIB;
        spec.workspace = Workspace::Disk;
        assert_eq!(Sizes::of(&spec).unwrap(), Sizes { tmp: 16 * MIB, shm: 8 * MIB, workspace: None });
        for workspace in [MIB, 68 * MIB] {
            spec.workspace = Workspace::Memory(workspace);
            let sizes = Sizes::of(&spec).unwrap();
            assert!(sizes.tmp + sizes.shm + RUN_SIZE + workspace <= spec.memory / 4 * 3);
        }
    }

    #[test]
    fn what_does_not_fit_or_means_no_limit_is_refused() {
        let refuse = |change: &dyn Fn(&mut ContainerSpec)| {
            let mut spec = spec();
            change(&mut spec);
            let error = Sizes::of(&spec).unwrap_err();
            assert!(error.is_usage() && error.hint().is_some_and(|hint| hint.contains("--")), "{spec:?}");
            error.to_string()
        };
        let text = refuse(&|spec| spec.workspace = Workspace::Memory(spec.memory));
        assert_eq!(
            text,
            "a workspace of 1024 MiB in memory does not fit a memory limit of 1024 MiB: the most is 636 MiB"
        );
        refuse(&|spec| spec.workspace = Workspace::Memory(0));
        refuse(&|spec| spec.memory = 0);
        refuse(&|spec| spec.memory = u64::MAX);
        refuse(&|spec| spec.pids = 0);
        // A session of so few does not start, for reasons that name no limit.
        refuse(&|spec| spec.pids = LEAST_PROCESSES - 1);
        for cpus in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            refuse(&|spec| spec.cpus = cpus);
        }
    }

    #[test]
    fn a_limit_that_did_not_take_is_named() {
        let spec = spec();
        assert!(able().check(&spec, &got(&spec), &[]).is_ok());
        let podman =
            InspectedLimits { nano_cpus: None, cpu_quota: Some(100_000), cpu_period: Some(100_000), ..got(&spec) };
        assert!(able().check(&spec, &podman, &[]).is_ok(), "a quota is a CPU limit too");

        let warning = "Your kernel does not support memory limit capabilities. Limitation discarded.".to_owned();
        let dropped = InspectedLimits { memory: Some(0), pids_limit: None, ..got(&spec) };
        let error = able().check(&spec, &dropped, &[warning]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the container engine does not hold the memory limit and the process limit of container cellblock-0-test"
        );
        assert!(std::error::Error::source(&error).is_some_and(|source| source.to_string().contains("discarded")));
    }

    #[test]
    fn swap_matters_only_where_there_is_some() {
        let spec = spec();
        let unlimited = InspectedLimits { memory_swap: Some(-1), ..got(&spec) };
        assert!(able().check(&spec, &unlimited, &[]).is_err());
        let without = Abilities { host_swaps: false, ..able() };
        assert!(without.check(&spec, &unlimited, &[]).is_ok());
        let info = Info { swap_limit: Some(false), ..Info::default() };
        assert!(Abilities::new(&info, false, false).missing.is_empty());
        assert_eq!(Abilities::new(&info, false, true).missing, ["swap"]);
    }

    #[test]
    fn an_engine_without_seccomp_is_refused_unless_another_runtime_was_chosen() {
        let options = |text: &str| Info { security_options: Some(vec![text.to_owned()]), ..Info::default() };
        assert!(Abilities::new(&options("name=seccomp,profile=default"), false, false).seccomp);
        assert!(!Abilities::new(&options("name=seccomp,profile=unconfined"), false, false).seccomp);
        let open = Abilities::new(&options("name=cgroupns"), false, false);
        let mut spec = spec();
        assert!(open.check(&spec, &got(&spec), &[]).is_err());
        spec.runtime = Some("runsc".to_owned());
        assert!(open.check(&spec, &got(&spec), &[]).is_ok());
    }
}
