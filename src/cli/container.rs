//! The flags that shape a container.

use std::path::PathBuf;

use anyhow::Result;
use cellblock::{Network, Session, SessionBuilder, Workspace};
use clap::{Args, ValueEnum};

use super::printer::Usage;
use super::units;

/// What the container is made of; each flag loosens or sets one thing.
#[derive(Debug, Args)]
#[command(next_help_heading = "Container")]
pub(crate) struct ContainerArgs {
    /// The image [default: cellblock:data]
    #[arg(long)]
    image: Option<String>,
    /// Memory limit, such as `512m` or `2g`; swap is off [default: 1g]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    memory: Option<u64>,
    /// CPU limit in cores, such as `0.5` [default: 1]
    #[arg(long, value_name = "CORES", value_parser = units::cores)]
    cpus: Option<f64>,
    /// Limit of processes and threads [default: 256]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pids: Option<u32>,
    /// `none`, `bridge`, or a network of the engine by its name [default: none]
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    network: Option<Network>,
    /// The engine's runtime, such as `runsc`
    #[arg(long)]
    runtime: Option<String>,
    /// Set a variable of the kernel's environment; `NAME` alone takes its value from here
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Put `/workspace` in the container's memory or in a volume that goes with it [default: memory]
    #[arg(long, value_enum, value_name = "KIND")]
    workspace: Option<WorkspaceKind>,
    /// Size of a `/workspace` in memory [default: a quarter of the memory limit]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    workspace_size: Option<u64>,
    /// Mount this directory of yours as `/workspace`, for the code to read and write; new files are yours
    #[arg(long, value_name = "DIR", conflicts_with_all = ["workspace", "workspace_size"])]
    workdir: Option<PathBuf>,
    /// The path of that directory outside of the container in which cellblock itself runs
    #[arg(long, value_name = "DIR", requires = "workdir")]
    bind_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorkspaceKind {
    Memory,
    Disk,
}

impl ContainerArgs {
    /// The flags that were given: a session that is there already has its shape.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("--image", self.image.is_some()),
            ("--memory", self.memory.is_some()),
            ("--cpus", self.cpus.is_some()),
            ("--pids", self.pids.is_some()),
            ("--network", self.network.is_some()),
            ("--runtime", self.runtime.is_some()),
            ("--env", !self.env.is_empty()),
            ("--workspace", self.workspace.is_some()),
            ("--workspace-size", self.workspace_size.is_some()),
            ("--workdir", self.workdir.is_some()),
            ("--bind-dir", self.bind_dir.is_some()),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }

    /// A session's description by these flags; what was not given keeps the library's default.
    pub(crate) fn builder(&self) -> Result<SessionBuilder> {
        let mut builder = Session::builder();
        if let Some(image) = &self.image {
            builder = builder.image(image);
        }
        if let Some(memory) = self.memory {
            builder = builder.memory(memory);
        }
        if let Some(cpus) = self.cpus {
            builder = builder.cpus(cpus);
        }
        if let Some(pids) = self.pids {
            builder = builder.pids(pids);
        }
        if let Some(network) = &self.network {
            builder = builder.network(network.clone());
        }
        if let Some(runtime) = &self.runtime {
            builder = builder.runtime(runtime);
        }
        if let Some(workspace) = self.workspace()? {
            builder = builder.workspace(workspace);
        }
        if let Some(directory) = &self.bind_dir {
            if directory.is_relative() {
                return Err(Usage(format!("`--bind-dir` needs an absolute path, not `{}`", directory.display())).into());
            }
            builder = builder.bind_dir(directory);
        }
        for variable in &self.env {
            let (name, value) = env(variable, |name| std::env::var(name))?;
            builder = builder.env(name, value);
        }
        Ok(builder)
    }

    /// Whether the work directory is the caller's own: every container of these flags has it, and it outlives them.
    pub(crate) fn has_own_work_directory(&self) -> bool {
        self.workdir.is_some()
    }

    /// The image of these flags.
    #[cfg(feature = "serve")]
    pub(crate) fn image(&self) -> &str {
        self.image.as_deref().unwrap_or(cellblock::DEFAULT_IMAGE)
    }

    /// What a container of these flags may use.
    #[cfg(feature = "serve")]
    pub(crate) fn ceiling(&self) -> crate::serve::config::Ceiling {
        let default = cellblock::ContainerSpec::new("", "");
        crate::serve::config::Ceiling {
            memory: self.memory.unwrap_or(default.memory),
            cpus: self.cpus.unwrap_or(default.cpus),
            pids: self.pids.unwrap_or(default.pids),
        }
    }

    fn workspace(&self) -> Result<Option<Workspace>, Usage> {
        if let Some(directory) = &self.workdir {
            // The library checks it too, and more, but only once an engine has answered.
            std::fs::read_dir(directory).map_err(|error| {
                Usage(format!("cannot use `{}` as the work directory: {error}", directory.display()))
            })?;
            return Ok(Some(Workspace::Host(directory.clone())));
        }
        match (self.workspace, self.workspace_size) {
            (Some(WorkspaceKind::Disk), Some(_)) => {
                Err(Usage("`--workspace-size` is for a workspace in memory, not for `--workspace disk`".into()))
            }
            (Some(WorkspaceKind::Disk), None) => Ok(Some(Workspace::Disk)),
            (_, size) => Ok(size.map(Workspace::Memory)),
        }
    }
}

fn network(text: &str) -> Result<Network, String> {
    match text {
        "" => Err("expected `none`, `bridge` or the name of a network".into()),
        "none" => Ok(Network::None),
        "bridge" => Ok(Network::Bridge),
        name => Ok(Network::Named(name.to_owned())),
    }
}

fn env(
    variable: &str,
    here: impl FnOnce(&str) -> Result<String, std::env::VarError>,
) -> Result<(String, String), Usage> {
    let (name, value) = match variable.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        // The value is not repeated in the message: it may be a secret.
        None => {
            (variable, here(variable).map_err(|error| Usage(format!("cannot take `{variable}` for `--env`: {error}")))?)
        }
    };
    if name.is_empty() || name.contains('\0') || value.contains('\0') {
        return Err(Usage("expected `--env NAME=VALUE` or `--env NAME`".into()));
    }
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn every_flag_is_known_to_shape_the_container() {
        let flags = ContainerArgs::augment_args(clap::Command::new("run"));
        let args = ["run", "--image=i", "--memory=1g", "--cpus=1", "--pids=9", "--network=none", "--runtime=r"];
        let args = [&args[..], &["--env=A=1"]].concat();
        let given = |more: &[&str]| {
            let matches = flags.clone().try_get_matches_from([&args, more].concat()).unwrap();
            ContainerArgs::from_arg_matches(&matches).unwrap().given()
        };
        let mut given_all = given(&["--workspace=memory", "--workspace-size=1m"]);
        given_all.extend(given(&["--workdir=d", "--bind-dir=/d"]).split_off(given_all.len() - 2));
        let all: Vec<String> = flags.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        assert_eq!(given_all, all);
    }

    #[test]
    fn networks() {
        assert_eq!(network("none"), Ok(Network::None));
        assert_eq!(network("bridge"), Ok(Network::Bridge));
        assert_eq!(network("lab"), Ok(Network::Named("lab".into())));
        assert!(network("").is_err());
    }

    #[test]
    fn variables() {
        let here = |name: &str| if name == "HERE" { Ok("x=y".to_owned()) } else { Err(VarError::NotPresent) };
        assert_eq!(env("A=1=2", here).unwrap(), ("A".into(), "1=2".into()));
        assert_eq!(env("A=", here).unwrap(), ("A".into(), String::new()));
        assert_eq!(env("HERE", here).unwrap(), ("HERE".into(), "x=y".into()));
        assert!(env("ELSEWHERE", here).unwrap_err().0.contains("ELSEWHERE"));
        assert!(env("=1", here).is_err());
    }
}
