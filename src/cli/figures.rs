//! Figures of a container as files of the host.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cellblock::MimeBundle;

/// The MIME types that are saved, with the file names' endings.
const KINDS: [(&str, &str); 4] =
    [("image/png", "png"), ("image/jpeg", "jpg"), ("image/svg+xml", "svg"), ("application/pdf", "pdf")];

/// Code in a container must not fill the host's disk through its figures.
const MAX_FILES: u32 = 1000;
const MAX_BYTES: u64 = 1 << 30;

/// Saves figures as `figure-1.png` and so on in one directory; a file that is there is never touched.
#[derive(Debug)]
pub(crate) struct Figures {
    directory: PathBuf,
    next: u32,
    files: u32,
    bytes: u64,
    by_display: HashMap<String, Vec<(&'static str, PathBuf)>>,
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
    pub(crate) fn new(directory: Option<&Path>) -> Self {
        let directory = directory.unwrap_or(Path::new("")).to_owned();
        Self { directory, next: 1, files: 0, bytes: 0, by_display: HashMap::new(), failed: false }
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
            let path = match old {
                Some(path) => {
                    fs::write(&path, &bytes).with_context(|| format!("cannot update `{}`", path.display()))?;
                    path
                }
                None => self.create(extension, &bytes)?,
            };
            if let Some(id) = display_id {
                let files = self.by_display.entry(id.to_owned()).or_default();
                if !files.iter().any(|(known, _)| *known == extension) {
                    files.push((extension, path.clone()));
                }
            }
            saved.paths.push(path);
        }
        Ok(saved)
    }

    fn file_of(&self, display_id: &str, extension: &str) -> Option<PathBuf> {
        let files = self.by_display.get(display_id)?;
        files.iter().find(|(known, _)| *known == extension).map(|(_, path)| path.clone())
    }

    fn create(&mut self, extension: &str, bytes: &[u8]) -> Result<PathBuf> {
        if !self.directory.as_os_str().is_empty() {
            fs::create_dir_all(&self.directory)
                .with_context(|| format!("cannot create the directory `{}`", self.directory.display()))?;
        }
        loop {
            let path = self.directory.join(format!("figure-{}.{extension}", self.next));
            self.next += 1;
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    write_all(file, bytes).with_context(|| format!("cannot write `{}`", path.display()))?;
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("cannot create `{}`", path.display())),
            }
        }
    }
}

/// Whether the bundle has something that is saved and not printed.
pub(crate) fn has_figure(bundle: &MimeBundle) -> bool {
    KINDS.iter().any(|(mime, _)| bundle.get(mime).is_some())
}

fn write_all(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)
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
        let mut figures = Figures::new(Some(directory.path()));
        let saved = figures.save(&bundle(&[("image/png", "aGVs\nbG8=\n"), ("text/plain", "<Figure>")]), None).unwrap();
        assert_eq!(saved.paths, [directory.path().join("figure-3.png")]);
        assert_eq!(fs::read(&saved.paths[0]).unwrap(), b"hello");
        assert_eq!(fs::read(directory.path().join("figure-1.png")).unwrap(), b"mine");
    }

    #[test]
    fn every_kind_is_saved_and_the_directory_made() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("a/b");
        let mut figures = Figures::new(Some(&deep));
        let saved =
            figures.save(&bundle(&[("image/svg+xml", "<svg/>"), ("application/pdf", "JVBERg==")]), None).unwrap();
        assert_eq!(saved.paths, [deep.join("figure-1.svg"), deep.join("figure-2.pdf")]);
        assert_eq!(fs::read(deep.join("figure-1.svg")).unwrap(), b"<svg/>");
    }

    #[test]
    fn an_update_rewrites_its_own_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new(Some(directory.path()));
        let first = figures.save(&bundle(&[("image/svg+xml", "1")]), Some("id")).unwrap();
        let second = figures.save(&bundle(&[("image/svg+xml", "2")]), Some("id")).unwrap();
        assert_eq!(first, second);
        assert_eq!(fs::read(&second.paths[0]).unwrap(), b"2");
    }

    #[test]
    fn what_is_not_base64_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new(Some(directory.path()));
        let saved = figures.save(&bundle(&[("image/png", "%%%")]), None).unwrap();
        assert_eq!(saved, Saved { paths: vec![], left_out: 1 });
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new(Some(directory.path()));
        figures.files = MAX_FILES;
        let saved = figures.save(&bundle(&[("image/svg+xml", "1")]), None).unwrap();
        assert_eq!(saved, Saved { paths: vec![], left_out: 1 });
    }
}
