//! The accepted certificates of a server.
//!
//! | options | accepted |
//! |---|---|
//! | none | any certificate: encrypted, but the server may be another |
//! | `--ssl-ca` | what one of these CAs has issued, or is in the file itself |
//! | `--ssl-verify-server-cert` | what a CA has issued for the host of the address |

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The issuers that a server's certificate may have.
#[derive(Debug)]
pub(super) struct Trusted {
    pub(super) roots: RootCertStore,
    /// The same certificates as they are. A server that signed its own shows one of them.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

/// Looks at the certificates of servers.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    /// `None` accepts any certificate.
    pub(super) trusted: Option<Trusted>,
    pub(super) checks_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if !trusted.certificates.contains(end_entity) {
            let (roots, algorithms) = (&trusted.roots, self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        if self.checks_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            // An unverified certificate proves nothing, so its signature is not checked. It may also be unparsable.
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(_) => verify_tls12_signature(message, certificate, signature, &self.algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(_) => verify_tls13_signature(message, certificate, signature, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
