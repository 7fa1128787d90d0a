//! Certificates.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::serve::config::Certificate;

/// What a TLS listener presents; for a certificate of our own also the file that clients have to trust.
pub(crate) fn acceptor(certificate: &Certificate, names: &[String]) -> Result<(TlsAcceptor, Option<PathBuf>)> {
    match certificate {
        Certificate::Files { certificate, key } => {
            let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
            let (chain, secret) = (read(certificate)?, read(key)?);
            let acceptor = of_pem(&chain, &secret).with_context(|| {
                format!("{} and {} are no certificate with its key", certificate.display(), key.display())
            })?;
            Ok((acceptor, None))
        }
        Certificate::SelfSigned(directory) => {
            let authority = authority(directory)?;
            let (chain, secret) = leaf(&authority, names)?;
            Ok((of_pem(chain.as_bytes(), secret.as_bytes())?, Some(directory.join(CA))))
        }
    }
}

fn of_pem(chain: &[u8], key: &[u8]) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

const CA: &str = "authority.pem";
const CA_KEY: &str = "authority.key";

/// Our own authority, made once: what clients were told to trust stays the same from start to start.
fn authority(directory: &Path) -> Result<Issuer<'static, KeyPair>> {
    let (certificate, key) = (directory.join(CA), directory.join(CA_KEY));
    if let (true, Ok(secret)) = (certificate.exists(), fs::read_to_string(&key)) {
        let secret = KeyPair::from_pem(&secret)
            .with_context(|| format!("cannot use {}: remove it to have another one made", key.display()))?;
        return Ok(Issuer::new(authority_params(), secret));
    }
    let place = directory.display();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot make {place}"))?;
    let secret = KeyPair::generate()?;
    let made = authority_params().self_signed(&secret)?;
    write(&key, &secret.serialize_pem(), 0o600)?;
    write(&certificate, &made.pem(), 0o644)?;
    Ok(Issuer::new(authority_params(), secret))
}

/// With its key they are all that signing needs of a certificate that is already there.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "cellblock's own authority");
    params
}

/// The certificate of one server, for its names and addresses.
fn leaf(authority: &Issuer<'_, KeyPair>, names: &[String]) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.distinguished_name.push(DnType::CommonName, "cellblock serve");
    Ok((params.signed_by(&key, authority)?.pem(), key.serialize_pem()))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
