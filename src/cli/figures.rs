//! Figures of a container as files of the host.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cellblock::MimeBundle;
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, renameat, unlinkat};

use super::printer::Usage;

/// The MIME types that are saved, with the file names' endings.
const KINDS: [(&str, &str); 4] =
    [("image/png", "png"), ("image/jpeg", "jpg"), ("image/svg+xml", "svg"), ("application/pdf", "pdf")];

/// Code in a container must not fill the host's disk through its figures.
const MAX_FILES: u32 = 1000;
const MAX_BYTES: u64 = 1 << 30;

/// Saves figures as `figure-1.png` and so on in one directory; a file that is there is never touched.
///
/// The directory is the user's word, and may be a link itself. It may also be one that the container has mounted, whose code can put links in
/// any place of it: it is opened before that code runs, and no link in it is followed.
#[derive(Debug)]
pub(crate) struct Figures {
    directory: PathBuf,
    opened: OwnedFd,
    next: u32,
    files: u32,
    bytes: u64,
    by_display: HashMap<String, Vec<(&'static str, String)>>,
    /// One could not be saved.
    pub(crate) failed: bool,
}

/// What became of a bundle's figures.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// The files that were written.
    pub(crate) paths: Vec<PathBuf>,
    /// Some were not, because the limit is reached or they are not what they claim to be.
    pub(crate) left_out: u32,
}

impl Figures {
    /// In this directory, which is made if it is not there, or in the current one.
    pub(crate) fn new(directory: Option<&Path>) -> Result<Self> {
        if let Some(directory) = directory {
            let made = fs::create_dir_all(directory).map_err(|error| Usage(error.to_string()));
            made.with_context(|| format!("cannot create the directory `{}`", directory.display()))?;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(directory.unwrap_or(Path::new(".")), flags, Mode::empty())
            .context("cannot open the directory of the figures")?;
        let directory = directory.unwrap_or(Path::new("")).to_owned();
        Ok(Self { directory, opened, next: 1, files: 0, bytes: 0, by_display: HashMap::new(), failed: false })
    }

    /// Saves every figure of the bundle. An update to a display rewrites the files that the display made.
    pub(crate) fn save(&mut self, bundle: &MimeBundle, display_id: Option<&str>) -> Result<Saved> {
        let mut saved = Saved::default();
        for (mime, extension) in KINDS {
            let Some(text) = bundle.get(mime) else { continue };
            let Some(bytes) = decode(mime, text) else {
                saved.left_out += 1;
                continue;
            };
            let old = display_id.and_then(|id| self.file_of(id, extension));
            let new = u32::from(old.is_none());
            if self.files + new > MAX_FILES || self.bytes + bytes.len() as u64 > MAX_BYTES {
                saved.left_out += 1;
                continue;
            }
            self.files += new;
            self.bytes += bytes.len() as u64;
            let name = match old {
                Some(name) => {
                    self.replace(&name, &bytes)?;
                    name
                }
                None => self.create(extension, &bytes)?,
            };
            if let Some(id) = display_id {
                let files = self.by_display.entry(id.to_owned()).or_default();
                if !files.iter().any(|(known, _)| *known == extension) {
                    files.push((extension, name.clone()));
                }
            }
            saved.paths.push(self.directory.join(name));
        }
        Ok(saved)
    }

    fn file_of(&self, display_id: &str, extension: &str) -> Option<String> {
        let files = self.by_display.get(display_id)?;
        files.iter().find(|(known, _)| *known == extension).map(|(_, name)| name.clone())
    }

    fn create(&mut self, extension: &str, bytes: &[u8]) -> Result<String> {
        loop {
            let name = format!("figure-{}.{extension}", self.next);
            self.next += 1;
            match self.write_new(&name, bytes) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                written => {
                    written.with_context(|| format!("cannot write `{}`", self.directory.join(&name).display()))?;
                    return Ok(name);
                }
            }
        }
    }

    /// Puts another file in the place of one, whatever has become of that meanwhile.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let new = format!(".{name}.new");
        let replaced = self.write_new(&new, bytes).and_then(|()| {
            renameat(&self.opened, &new, &self.opened, name).map_err(|error| {
                let _ = unlinkat(&self.opened, &new, AtFlags::empty());
                error.into()
            })
        });
        replaced.with_context(|| format!("cannot update `{}`", self.directory.join(name).display()))
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.opened, name, flags, Mode::from_raw_mode(0o666))?);
        // What is cut short is no figure, and must not stand in the way of the next try.
        file.write_all(bytes).inspect_err(|_| {
            let _ = unlinkat(&self.opened, name, AtFlags::empty());
        })
    }
}

/// Whether the bundle has something that is saved and not printed.
pub(crate) fn has_figure(bundle: &MimeBundle) -> bool {
    KINDS.iter().any(|(mime, _)| bundle.get(mime).is_some())
}

/// Jupyter breaks long base64 into lines.
fn decode(mime: &str, text: &str) -> Option<Vec<u8>> {
    if mime == "image/svg+xml" {
        return Some(text.as_bytes().to_vec());
    }
    let packed: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(packed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(entries: &[(&str, &str)]) -> MimeBundle {
        let mut bundle = MimeBundle::default();
        for (mime, text) in entries {
            bundle.data.insert((*mime).to_owned(), (*text).into());
        }
        bundle
    }

    #[test]
    fn files_that_are_there_are_never_touched() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("figure-1.png"), "mine").unwrap();
        std::os::unix::fs::symlink("/nowhere", directory.path().join("figure-2.png")).unwrap();
        let mut figures = Figures::new(Some(directory.path())).unwrap();
        let saved = figures.save(&bundle(&[("image/png", "aGVs\nbG8=\n"), ("text/plain", "<Figure>")]), None).unwrap();
        assert_eq!(saved.paths, [directory.path().join("figure-3.png")]);
        assert_eq!(fs::read(&saved.paths[0]).unwrap(), b"hello");
        assert_eq!(fs::read(directory.path().join("figure-1.png")).unwrap(), b"mine");
    }

    #[test]
    fn every_kind_is_saved_and_the_directory_made() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("a/b");
        let mut figures = Figures::new(Some(&deep)).unwrap();
        let saved =
            figures.save(&bundle(&[("image/svg+xml", "<svg/>"), ("application/pdf", "JVBERg==")]), None).unwrap();
        assert_eq!(saved.paths, [deep.join("figure-1.svg"), deep.join("figure-2.pdf")]);
        assert_eq!(fs::read(deep.join("figure-1.svg")).unwrap(), b"<svg/>");
    }

    #[test]
    fn an_update_rewrites_its_own_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new(Some(directory.path())).unwrap();
        let first = figures.save(&bundle(&[("image/svg+xml", "1")]), Some("id")).unwrap();
        let second = figures.save(&bundle(&[("image/svg+xml", "2")]), Some("id")).unwrap();
        assert_eq!(first, second);
        assert_eq!(fs::read(&second.paths[0]).unwrap(), b"2");
    }

    #[test]
    fn links_that_code_puts_in_the_way_are_not_followed() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (place, victim) = (directory.path().join("figures"), elsewhere.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        let mut figures = Figures::new(Some(&place)).unwrap();
        let first = figures.save(&bundle(&[("image/svg+xml", "1")]), Some("id")).unwrap();
        fs::remove_file(&first.paths[0]).unwrap();
        std::os::unix::fs::symlink(&victim, &first.paths[0]).unwrap();
        figures.save(&bundle(&[("image/svg+xml", "2")]), Some("id")).unwrap();
        assert_eq!((fs::read(&victim).unwrap(), fs::read(&first.paths[0]).unwrap()), (b"mine".to_vec(), b"2".to_vec()));
        // Nor in the place of the directory.
        fs::rename(&place, directory.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &place).unwrap();
        figures.save(&bundle(&[("image/svg+xml", "3")]), None).unwrap();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_base64_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new(Some(directory.path())).unwrap();
        let saved = figures.save(&bundle(&[("image/png", "%%%")]), None).unwrap();
        assert_eq!(saved, Saved { paths: vec![], left_out: 1 });
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new(Some(directory.path())).unwrap();
        figures.files = MAX_FILES;
        let saved = figures.save(&bundle(&[("image/svg+xml", "1")]), None).unwrap();
        assert_eq!(saved, Saved { paths: vec![], left_out: 1 });
    }
}
