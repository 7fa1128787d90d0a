//! Whom everything in a container runs as.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{getegid, geteuid};

use crate::Error;
use crate::engine::{ContainerSpec, Workspace};
use crate::error::Kind;

/// The user that the image is made for.
const IMAGE_USER: u32 = 1000;

/// Who a container's users are on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    /// The same.
    Same,
    /// The engine has its user's rights alone: that user is the container's root, and the others are users without a name.
    Rootless,
    /// Users without a name, all of them.
    Others,
}

/// A user of a container, and how the engine is to map it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Podman's `keep-id`, where it would map its own user to the container's root.
    pub(super) keep_id: bool,
}

impl User {
    /// The image's own, whatever the image says.
    pub(super) const OF_IMAGE: Self = Self { uid: IMAGE_USER, gid: IMAGE_USER, keep_id: false };

    /// The user for this container: where it writes a directory of the host, its files belong to whom they would belong without it.
    pub(super) fn of(spec: &ContainerSpec, is_podman: bool, mapping: Mapping) -> Result<Self, Error> {
        let Workspace::Host(path) = &spec.workspace else { return Ok(Self::OF_IMAGE) };
        let refused = |why: String| {
            Error::new(Kind::Usage, format!("cannot mount the work directory {}", path.display())).with_source(why)
        };
        let (uid, gid) = owner(path).map_err(|error| refused(error.to_string()))?;
        match mapping {
            Mapping::Same => Ok(Self { uid, gid, keep_id: false }),
            Mapping::Rootless if is_podman => Ok(Self { uid, gid, keep_id: true }),
            Mapping::Rootless => Ok(Self { uid: 0, gid: 0, keep_id: false }),
            Mapping::Others => {
                Err(refused("the engine maps the container's users to others of the host (userns-remap)".to_owned()))
            }
        }
    }

    /// The image knows its user by a name.
    pub(super) fn is_nameless(&self) -> bool {
        *self != Self::OF_IMAGE
    }
}

/// The calling user and group; for root, those of the directory: with no capabilities, it could not even write there.
fn owner(path: &Path) -> std::io::Result<(u32, u32)> {
    if geteuid().is_root() {
        let metadata = std::fs::metadata(path)?;
        return Ok((metadata.uid(), metadata.gid()));
    }
    Ok((geteuid().as_raw(), getegid().as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(is_podman: bool, mapping: Mapping) -> Result<User, Error> {
        let directory = tempfile::tempdir().unwrap();
        let mut spec = ContainerSpec::new("cellblock-0-test", "cellblock:data");
        spec.workspace = Workspace::Host(directory.path().to_owned());
        User::of(&spec, is_podman, mapping)
    }

    #[test]
    fn files_belong_to_the_caller_however_the_engine_maps_users() {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        assert_eq!(user(false, Mapping::Same).unwrap(), User { uid, gid, keep_id: false });
        assert_eq!(user(true, Mapping::Same).unwrap(), User { uid, gid, keep_id: false });
        assert_eq!(user(true, Mapping::Rootless).unwrap(), User { uid, gid, keep_id: true });
        assert_eq!(user(false, Mapping::Rootless).unwrap(), User { uid: 0, gid: 0, keep_id: false });
        assert!(user(false, Mapping::Others).unwrap_err().is_usage());
    }

    #[test]
    fn without_a_directory_of_the_host_it_is_the_images() {
        let spec = ContainerSpec::new("cellblock-0-test", "cellblock:data");
        assert_eq!(User::of(&spec, false, Mapping::Others).unwrap(), User::OF_IMAGE);
    }
}
