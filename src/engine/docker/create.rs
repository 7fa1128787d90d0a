//! From a specification to a locked container.

use std::collections::HashMap;
use std::path::Path;

use bollard::errors::Error as ClientError;
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits,
    RestartPolicy, RestartPolicyNameEnum,
};
use bollard::query_parameters::CreateContainerOptionsBuilder;

use super::Docker;
use super::failure::{NETWORK_HINT, failed, is_missing_mount, is_missing_network, is_status, message};
use super::limits::{Abilities, RUN_INODES, RUN_SIZE, Sizes, inodes};
use super::user::User;
use crate::Error;
use crate::engine::{ContainerId, ContainerSpec, Network, Workspace};
use crate::error::Kind;

impl Docker {
    pub(super) async fn create_container(&self, spec: &ContainerSpec) -> Result<ContainerId, Error> {
        // Podman would make a missing one.
        if let Some(directory) = spec.host_directory.as_ref().filter(|directory| self.is_local() && !directory.is_dir())
        {
            return Err(Error::new(Kind::Usage, format!("there is no directory {} to mount", directory.display())));
        }
        let user = match &spec.workspace {
            Workspace::Host(path) => {
                self.check_is_ours_to_mount(path, spec.bind_directory.as_deref())?;
                User::of(spec, self.is_podman, self.abilities().await?.mapping)?
            }
            Workspace::Memory(_) | Workspace::Disk => User::OF_IMAGE,
        };
        let body = body(spec, &user, self.is_podman)?;
        let options = CreateContainerOptionsBuilder::new().name(&spec.name).build();
        let created = self.client.create_container(Some(options), body).await.map_err(|error| refused(spec, error))?;
        let id = ContainerId(created.id);
        let checked = self.check_limits(spec, &id, &created.warnings).await;
        if let Err(error) = checked {
            if let Err(error) = self.remove_container(&id).await {
                tracing::warn!(%id, %error, "a container without its limits was left behind");
            }
            return Err(error);
        }
        Ok(id)
    }

    /// A directory of this machine, or one that the engine is told to find elsewhere; and not one that holds the engine's socket, by which all of the machine
    /// could be had.
    fn check_is_ours_to_mount(&self, path: &Path, elsewhere: Option<&Path>) -> Result<(), Error> {
        let refused = |why: &str| Error::new(Kind::Usage, cannot_mount(path)).with_source(why.to_owned());
        let Some(socket) = self.address.strip_prefix("unix://") else {
            let another = || {
                refused("the engine runs on another machine")
                    .with_hint("if it has the directory too, name its path there: `--bind-dir`")
            };
            return elsewhere.map(|_| ()).ok_or_else(another);
        };
        let socket = Path::new(socket).canonicalize().unwrap_or_else(|_| socket.into());
        if socket.starts_with(path) || elsewhere.is_some_and(|path| socket.starts_with(path)) {
            return Err(refused("it holds the engine's socket"));
        }
        Ok(())
    }

    pub(super) async fn abilities(&self) -> Result<&Abilities, Error> {
        let ask = || Abilities::ask(&self.client, self.is_podman, self.is_local());
        self.abilities
            .get_or_try_init(ask)
            .await
            .map_err(|error| failed(Kind::Engine, "cannot ask the container engine which limits it can hold", error))
    }

    async fn check_limits(&self, spec: &ContainerSpec, id: &ContainerId, warnings: &[String]) -> Result<(), Error> {
        let (abilities, inspected) = tokio::try_join!(self.abilities(), self.inspect(id))?;
        let Some(inspected) = inspected else {
            return Err(Error::new(Kind::Gone, format!("container {id} was removed as soon as it was created")));
        };
        if spec.runtime.is_some() && inspected.host_config.runtime != spec.runtime {
            let text = format!("the container engine ignores the runtime that was asked for container {}", spec.name);
            return Err(Error::new(Kind::Usage, text).with_hint(runtime_hint(spec)));
        }
        abilities.check(spec, &inspected.host_config, warnings)
    }
}

fn body(spec: &ContainerSpec, user: &User, is_podman: bool) -> Result<ContainerCreateBody, Error> {
    let labels = spec.annotations.iter().chain(&spec.labels);
    Ok(ContainerCreateBody {
        image: Some(spec.image.clone()),
        cmd: Some(spec.args.clone()),
        env: Some(environment(spec, user)?),
        user: Some(format!("{}:{}", user.uid, user.gid)),
        labels: Some(labels.map(|(key, value)| (key.clone(), value.clone())).collect()),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        host_config: Some(host_config(spec, user, is_podman)?),
        ..ContainerCreateBody::default()
    })
}

fn environment(spec: &ContainerSpec, user: &User) -> Result<Vec<String>, Error> {
    let entry = |(name, value): &(String, String)| {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Error::new(Kind::Usage, format!("the environment variable {name:?} cannot be set")));
        }
        Ok(format!("{name}={value}"))
    };
    // Programs that look for the name of a user whom the image does not know find this instead.
    let name = user.is_nameless().then(|| Ok("USER=cellblock".to_owned()));
    name.into_iter().chain(spec.env.iter().map(entry)).collect()
}

fn host_config(spec: &ContainerSpec, user: &User, is_podman: bool) -> Result<HostConfig, Error> {
    let sizes = Sizes::of(spec)?;
    let memory = i64::try_from(spec.memory).unwrap_or(i64::MAX);
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked with the sizes")]
    let nano_cpus = (spec.cpus * 1e9).round() as i64;
    Ok(HostConfig {
        network_mode: Some(network_mode(&spec.network)?),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        readonly_rootfs: Some(true),
        privileged: Some(false),
        ipc_mode: Some("private".to_owned()),
        init: Some(false),
        auto_remove: Some(true),
        restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), ..RestartPolicy::default() }),
        runtime: spec.runtime.clone(),
        memory: Some(memory),
        memory_swap: Some(memory),
        nano_cpus: Some(nano_cpus),
        pids_limit: Some(spec.pids.into()),
        ulimits: Some(vec![no_core_dumps()]),
        log_config: Some(log_config()),
        tmpfs: Some(tmpfs(&sizes, user, is_podman)),
        userns_mode: user.keep_id.then(|| "keep-id".to_owned()),
        mounts: Some(mounts(spec)?),
        ..HostConfig::default()
    })
}

fn network_mode(network: &Network) -> Result<String, Error> {
    let name = match network {
        Network::None => "none",
        Network::Bridge => "bridge",
        // These are no networks of the engine: they open the host's, or another container's.
        Network::Named(name) if name == "host" || name.is_empty() || name.contains(':') => {
            return Err(Error::new(Kind::Usage, format!("{name:?} is not a network that a session can join")));
        }
        Network::Named(name) => name,
    };
    Ok(name.to_owned())
}

/// A limit of 0 holds for files only. 1 also keeps the kernel from piping a dump to a program of the host.
fn no_core_dumps() -> ResourcesUlimits {
    ResourcesUlimits { name: Some("core".to_owned()), soft: Some(1), hard: Some(1) }
}

fn log_config() -> HostConfigLogConfig {
    let options = [("max-size", "1m"), ("max-file", "1")];
    HostConfigLogConfig {
        typ: Some("json-file".to_owned()),
        config: Some(options.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
    }
}

fn tmpfs(sizes: &Sizes, user: &User, is_podman: bool) -> HashMap<String, String> {
    // Podman cannot limit the inodes of a tmpfs; its `U` gives it to the container's user. It would copy the image's
    // directory into it.
    let mount = |flags, own: &str, size, inodes| match (is_podman, own.is_empty()) {
        (true, true) => format!("rw,{flags},nosuid,nodev,notmpcopyup,mode=1777,size={size}"),
        (true, false) => format!("rw,{flags},nosuid,nodev,notmpcopyup,U,mode={own},size={size}"),
        (false, true) => format!("rw,{flags},nosuid,nodev,mode=1777,size={size},nr_inodes={inodes}"),
        (false, false) => {
            let User { uid, gid, .. } = user;
            format!("rw,{flags},nosuid,nodev,mode={own},uid={uid},gid={gid},size={size},nr_inodes={inodes}")
        }
    };
    let mut tmpfs = HashMap::from([
        ("/tmp".to_owned(), mount("exec", "", sizes.tmp, inodes(sizes.tmp))),
        ("/dev/shm".to_owned(), mount("noexec", "", sizes.shm, inodes(sizes.shm))),
        ("/run/cellblock".to_owned(), mount("noexec", "0700", RUN_SIZE, RUN_INODES)),
    ]);
    if is_podman {
        // A read-only root makes Podman add these, without a limit, unless they are given.
        tmpfs.insert("/run".to_owned(), format!("rw,noexec,nosuid,nodev,mode=0755,size={RUN_SIZE}"));
        tmpfs.insert("/var/tmp".to_owned(), mount("noexec", "", RUN_SIZE, RUN_INODES));
    }
    if let Some(workspace) = sizes.workspace {
        tmpfs.insert("/workspace".to_owned(), mount("exec", "0755", workspace, inodes(workspace)));
    }
    tmpfs
}

fn mounts(spec: &ContainerSpec) -> Result<Vec<Mount>, Error> {
    let mut mounts = Vec::new();
    let workspace =
        |typ, source| Mount { typ: Some(typ), source, target: Some("/workspace".to_owned()), ..Mount::default() };
    match &spec.workspace {
        Workspace::Memory(_) => {}
        Workspace::Disk => mounts.push(workspace(MountType::VOLUME, None)),
        Workspace::Host(path) => {
            let path = spec.bind_directory.as_ref().unwrap_or(path);
            mounts.push(workspace(MountType::BIND, Some(absolute(path)?)));
        }
    }
    if let Some(directory) = &spec.host_directory {
        mounts.push(Mount {
            typ: Some(MountType::BIND),
            source: Some(absolute(directory)?),
            target: Some("/run/cellblock-host".to_owned()),
            read_only: Some(true),
            ..Mount::default()
        });
    }
    Ok(mounts)
}

fn absolute(path: &Path) -> Result<String, Error> {
    match path.to_str() {
        Some(text) if path.is_absolute() => Ok(text.to_owned()),
        _ => Err(Error::new(Kind::Usage, format!("cannot mount the host directory {}", path.display()))
            .with_hint("the path must be absolute and UTF-8")),
    }
}

/// Why the engine did not create the container.
fn refused(spec: &ContainerSpec, error: ClientError) -> Error {
    let ContainerSpec { name, image, .. } = spec;
    let text = message(&error).unwrap_or_default().to_lowercase();
    if is_status(&error, 404) && text.contains("image") {
        let hint = format!("`cellblock image build` builds the kernel image; asked for was {image}");
        return failed(Kind::ImageMissing, format!("there is no image {image}"), error).with_hint(hint);
    }
    // Podman answers 500.
    if is_status(&error, 409) || text.contains("already in use") {
        let session = session_name(name);
        let hint = format!("`cellblock session stop {session}` ends it, or choose another name");
        // The engine's own words are long, and advise to remove the container.
        return Error::name_taken(name).with_hint(hint);
    }
    let attempted = format!("cannot create container {name} from image {image}");
    let is_told = |path: &Path| is_missing_mount(&text) && text.contains(&path.display().to_string().to_lowercase());
    if spec.host_directory.as_deref().is_some_and(is_told) {
        return failed(Kind::Mount, attempted, error).with_hint("the relay link works with every engine");
    }
    if let Workspace::Host(path) = &spec.workspace
        && is_told(spec.bind_directory.as_ref().unwrap_or(path))
    {
        return failed(Kind::Usage, cannot_mount(path), error).with_hint(BIND_HINT);
    }
    if is_missing_network(&error) {
        return failed(Kind::Usage, attempted, error).with_hint(NETWORK_HINT);
    }
    if spec.runtime.is_some() && text.contains("runtime") {
        return failed(Kind::Usage, attempted, error).with_hint(runtime_hint(spec));
    }
    failed(if is_status(&error, 400) { Kind::Usage } else { Kind::Engine }, attempted, error)
}

fn cannot_mount(path: &Path) -> String {
    format!("cannot mount the work directory {}", path.display())
}

const BIND_HINT: &str =
    "where cellblock itself runs in a container, `--bind-dir` names the directory's path outside of it";

fn runtime_hint(spec: &ContainerSpec) -> String {
    let runtime = spec.runtime.as_deref().unwrap_or_default();
    format!(
        "asked for was {runtime}: `docker info` lists the runtimes that the engine knows; Podman takes none by name"
    )
}

/// The session's name in a container's name `cellblock-UID-NAME`.
fn session_name(container: &str) -> &str {
    container.strip_prefix("cellblock-").and_then(|rest| rest.split_once('-')).map_or(container, |(_, name)| name)
}
