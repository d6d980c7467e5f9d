//! Certificates and keys, read from the files of the options. Files that cannot be used are errors before
//! anything connects.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::TlsArgs;
use super::verify::{Trusted, Verifier};
use crate::measure::server::address::Place;
use crate::support::error::Error;

/// What connections to `place` need for TLS.
pub(super) fn config(args: &TlsArgs, place: &Place) -> Result<ClientConfig, Error> {
    let provider = ring::default_provider();
    let verifier = Verifier {
        algorithms: provider.signature_verification_algorithms,
        trusted: trusted(args)?,
        // A socket has no host.
        checks_name: args.ssl_verify_server_cert && matches!(place, Place::Tcp { .. }),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Usage(format!("TLS is not possible here: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match args.certificate() {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate, "--ssl-cert")?;
            builder.with_client_auth_cert(chain, private_key(key)?).map_err(|error| {
                Error::Usage(format!(
                    "the certificate in {} and the key in {} cannot be used together: {error}; name the key of that certificate with --ssl-key",
                    certificate.display(),
                    key.display()
                ))
            })?
        }
    };
    // Servers that verify clients refuse to resume a session; and clients that do not know each other share none.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The CAs; `None` if certificates are not verified.
fn trusted(args: &TlsArgs) -> Result<Option<Trusted>, Error> {
    let certificates = match &args.ssl_ca {
        Some(path) => certificates(path, "--ssl-ca")?,
        None if args.ssl_verify_server_cert => rustls_native_certs::load_native_certs().certs,
        None => return Ok(None),
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    match (added, &args.ssl_ca) {
        (0, Some(path)) => Err(no_certificate(path, "--ssl-ca")),
        (0, None) => Err(Error::Usage(
            "the system has no CA certificates: name the file of the server's CA with --ssl-ca".into(),
        )),
        _ => Ok(Some(Trusted { roots, certificates })),
    }
}

fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(path, option, &error))?;
    if found.is_empty() { Err(no_certificate(path, option)) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    use rustls::pki_types::pem::Error as Pem;
    PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
        Pem::NoItemsFound => Error::Usage(format!(
            "{} has no private key that can be read: name a PEM file with --ssl-key (a key with a passphrase is not supported)",
            path.display()
        )),
        error => unreadable(path, "--ssl-key", &error),
    })
}

fn no_certificate(path: &Path, option: &str) -> Error {
    Error::Usage(format!("{} has no certificate: name a PEM file with {option}", path.display()))
}

fn unreadable(path: &Path, option: &str, error: &rustls::pki_types::pem::Error) -> Error {
    use rustls::pki_types::pem::Error as Pem;
    let reason = match error {
        Pem::Io(error) => error.to_string(),
        error => error.to_string(),
    };
    Error::Usage(format!("cannot read {}: {reason}; name a PEM file with {option}", path.display()))
}
