//! Building the kernel image from the files that are embedded in this program.

mod context;
mod progress;

use std::collections::HashMap;
use std::env;
use std::path::PathBuf;

use bollard::errors::Error as ClientError;
use bollard::query_parameters::BuildImageOptionsBuilder;
use futures_util::StreamExt as _;
use serde::Deserialize;

use self::progress::Progress;
use super::docker::{Docker, failed, is_status, reread};
use crate::Error;
use crate::error::Kind;

/// Python's own image.
const REGISTRY_BASE: &str = "python:3.13-slim";

/// What `kernel-image/quickstart` makes where no registry can be reached.
const LOCAL_BASE: &str = "cellblock-debian-base:trixie";

/// The packages in a kernel image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ImageTarget {
    /// The kernel alone.
    Base,
    /// The kernel with the usual packages for data.
    #[default]
    Data,
}

impl ImageTarget {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Data => "data",
        }
    }
}

/// A line of a build's progress.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildEvent {
    /// The step that is running, from 1; 0 before the first.
    pub step: u32,
    /// How many steps there are; 0 before the first.
    pub total: u32,
    /// What the step does, when it begins, and then what it prints, as plain text.
    pub text: String,
}

/// An image in the engine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Image {
    /// Its id, a digest.
    pub id: String,
    /// Its labels.
    pub labels: HashMap<String, String>,
}

/// A build of the kernel image, to be [`run`](Self::run).
///
/// ```no_run
/// # async fn build() -> Result<(), cellblock::Error> {
/// use cellblock::{Docker, ImageBuild, ImageTarget};
///
/// let engine = Docker::connect().await?;
/// let build = ImageBuild::new(ImageTarget::Base).with(["pandas==2.3.3"]).tag("pandas:latest");
/// let id = build.run(&engine, |event| println!("{}/{} {}", event.step, event.total, event.text)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ImageBuild {
    target: ImageTarget,
    tag: String,
    base: Option<String>,
    with: Vec<String>,
    network: Option<String>,
    ca_bundle: Option<PathBuf>,
    use_cache: bool,
    arguments: HashMap<String, String>,
}

impl ImageBuild {
    /// A build of `cellblock:base` or `cellblock:data`.
    ///
    /// What this process uses to reach a package index holds for the build too: the CA bundle of `PIP_CERT` or
    /// `SSL_CERT_FILE`, which does not stay in the image, `PIP_INDEX_URL`, `PIP_EXTRA_INDEX_URL`, and the proxy variables.
    #[must_use]
    pub fn new(target: ImageTarget) -> Self {
        Self::from_variables(target, |name| env::var(name).ok())
    }

    fn from_variables(target: ImageTarget, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
        const PASSED_ON: [&str; 8] = [
            "PIP_INDEX_URL",
            "PIP_EXTRA_INDEX_URL",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "NO_PROXY",
            "http_proxy",
            "https_proxy",
            "no_proxy",
        ];
        Self {
            target,
            tag: format!("cellblock:{}", target.name()),
            base: None,
            with: Vec::new(),
            network: None,
            ca_bundle: ["PIP_CERT", "SSL_CERT_FILE"].iter().find_map(set).map(PathBuf::from),
            use_cache: true,
            arguments: PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), set(name)?))).collect(),
        }
    }

    /// The image's name, instead of `cellblock:base` or `cellblock:data`.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = tag.into();
        self
    }

    /// The image to build on: any with Python 3.10 or newer, its `venv` module and a shell.
    ///
    /// Without it: `python:3.13-slim`, or the base that `kernel-image/quickstart` made, if that is the one at hand.
    #[must_use]
    pub fn base(mut self, image: impl Into<String>) -> Self {
        self.base = Some(image.into());
        self
    }

    /// Further packages, as pip requirements without spaces, such as `pandas==2.3.3`.
    #[must_use]
    pub fn with(mut self, packages: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.with.extend(packages.into_iter().map(Into::into));
        self
    }

    /// The network of the build's steps, such as `host`, instead of the engine's default.
    #[must_use]
    pub fn network(mut self, network: impl Into<String>) -> Self {
        self.network = Some(network.into());
        self
    }

    /// The CA bundle that pip trusts during the build, instead of that of the environment. It does not stay in the image.
    #[must_use]
    pub fn ca_bundle(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_bundle = Some(file.into());
        self
    }

    /// Builds every step anew.
    #[must_use]
    pub fn without_cache(mut self) -> Self {
        self.use_cache = false;
        self
    }

    /// Builds the image and returns its id. Dropping the future ends the build.
    ///
    /// # Errors
    ///
    /// A package or the CA bundle is wrong; the base image is not there and cannot be pulled; a step failed, and then the
    /// error's source has the last lines that it printed.
    pub async fn run(self, engine: &Docker, mut progress: impl FnMut(BuildEvent)) -> Result<String, Error> {
        let packages = self.packages()?;
        let context = context::pack(self.read_ca_bundle()?.as_deref())
            .map_err(|error| Error::new(Kind::Io, "cannot pack the files of the kernel image").with_source(error))?;
        let base = match &self.base {
            Some(base) => base.clone(),
            None => base_at_hand(engine).await?,
        };
        let mut arguments = self.arguments.clone();
        arguments.insert("BASE".to_owned(), base.clone());
        arguments.insert("WITH".to_owned(), packages);
        arguments.insert("CONTENT".to_owned(), context::content_hash());
        let mut options = BuildImageOptionsBuilder::new()
            .t(&self.tag)
            .target(self.target.name())
            .buildargs(&arguments)
            .nocache(!self.use_cache)
            .forcerm(true);
        if let Some(network) = &self.network {
            options = options.networkmode(network);
        }
        let body = bollard::body_full(context.into());
        let mut answers = engine.client().build_image(options.build(), None, Some(body));
        let mut seen = Progress::default();
        let mut id = None;
        while let Some(answer) = answers.next().await {
            let answer = answer.map_err(|error| self.failure(&seen, &base, error))?;
            id = answer.aux.and_then(|aux| aux.id).or(id);
            seen.take(answer.stream.as_deref().unwrap_or_default(), &mut progress);
            // The progress of a pull.
            if let Some(status) = answer.status {
                let layer = answer.id.map(|id| format!("{id}: ")).unwrap_or_default();
                seen.take(&format!("{layer}{status}\n"), &mut progress);
            }
        }
        seen.finish(&mut progress);
        match id {
            Some(id) => Ok(id),
            None => match engine.image(&self.tag).await? {
                Some(image) => Ok(image.id),
                None => Err(Error::new(Kind::Engine, format!("the build of image {} made none", self.tag))),
            },
        }
    }

    fn packages(&self) -> Result<String, Error> {
        for package in &self.with {
            if package.is_empty() || package.starts_with('-') || package.contains(char::is_whitespace) {
                return Err(Error::new(Kind::Usage, format!("{package:?} is not a package that can be added"))
                    .with_hint("write it as pip does, without spaces: pandas==2.3.3"));
            }
        }
        Ok(self.with.join(" "))
    }

    fn read_ca_bundle(&self) -> Result<Option<Vec<u8>>, Error> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| {
                Error::new(Kind::Usage, format!("cannot read the CA bundle {}", path.display())).with_source(error)
            })
        };
        self.ca_bundle.as_ref().map(read).transpose()
    }

    fn failure(&self, seen: &Progress, base: &str, error: ClientError) -> Error {
        let attempted = format!("cannot build image {}", self.tag);
        let ClientError::DockerStreamError { error } = error else {
            return failed(Kind::Engine, attempted, error);
        };
        let lines = seen.last_lines(&error);
        if seen.instruction().starts_with("FROM") || seen.step() == 0 {
            return Error::new(Kind::ImageMissing, format!("{attempted}: its base image {base} cannot be had"))
                .with_source(lines)
                .with_hint(
                    "`--base NAME` builds on another image with Python; `kernel-image/quickstart` makes one from Debian's packages",
                );
        }
        let error =
            Error::new(Kind::Engine, format!("{attempted}: {} failed", seen.place())).with_source(lines.clone());
        if ["name resolution", "Could not resolve", "Connection", "SSLError", "CERTIFICATE_VERIFY_FAILED"]
            .iter()
            .any(|sign| lines.contains(sign))
        {
            return error.with_hint(
                "the package index could not be reached: see SSL_CERT_FILE, PIP_INDEX_URL, HTTPS_PROXY, and `--network host`",
            );
        }
        error
    }
}

/// The default base: one that is here, before one that must be pulled.
async fn base_at_hand(engine: &Docker) -> Result<String, Error> {
    if engine.image(REGISTRY_BASE).await?.is_none() && engine.image(LOCAL_BASE).await?.is_some() {
        return Ok(LOCAL_BASE.to_owned());
    }
    Ok(REGISTRY_BASE.to_owned())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedImage {
    id: String,
    #[serde(default)]
    config: Option<InspectedConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct InspectedConfig {
    labels: Option<HashMap<String, String>>,
}

impl Docker {
    /// Looks an image up by name or id; none if the engine has no such image.
    ///
    /// # Errors
    ///
    /// The engine was lost.
    pub async fn image(&self, name: &str) -> Result<Option<Image>, Error> {
        match reread::<_, InspectedImage>(self.client().inspect_image(name).await) {
            Ok(image) => {
                Ok(Some(Image { id: image.id, labels: image.config.unwrap_or_default().labels.unwrap_or_default() }))
            }
            Err(error) if is_status(&error, 404) => Ok(None),
            Err(error) => Err(failed(Kind::Engine, format!("cannot look up image {name}"), error)),
        }
    }
}

#[cfg(test)]
mod tests;
