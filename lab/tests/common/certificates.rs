//! Certificates for a test: CAs and what they issue, as PEM files in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// A folder of certificates.
pub(crate) struct Certificates {
    dir: TempDir,
}

impl Certificates {
    /// Two CAs, `ca` and `other`; a server's certificate for 127.0.0.1, `server`, from the first; `client` from the
    /// first and `stranger` from the second.
    pub(crate) fn new() -> Self {
        let made = Certificates { dir: tempfile::tempdir().unwrap() };
        let (ca, other) = (made.authority("ca"), made.authority("other"));
        made.issue("server", &["127.0.0.1"], &ca);
        made.issue("client", &[], &ca);
        made.issue("stranger", &[], &other);
        made
    }

    /// A certificate's file, `NAME.pem`.
    pub(crate) fn certificate(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.pem"))
    }

    /// Its key's file.
    pub(crate) fn key(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.key"))
    }

    /// What a server with the certificate `server` is started with.
    pub(crate) fn of_server(&self) -> Vec<String> {
        let option = |name: &str, file: &Path| format!("--ssl-{name}={}", file.display());
        vec![
            option("ca", &self.certificate("ca")),
            option("cert", &self.certificate("server")),
            option("key", &self.key("server")),
        ]
    }

    /// A certificate that its own key has signed, which is no CA's.
    pub(crate) fn self_signed(&self, name: &str, host: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters(name, &[host]).self_signed(&key).unwrap();
        self.write(name, &certificate.pem(), &key);
    }

    fn authority(&self, name: &str) -> Issuer<'static, KeyPair> {
        let key = KeyPair::generate().unwrap();
        let mut parameters = parameters(name, &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.write(name, &parameters.self_signed(&key).unwrap().pem(), &key);
        Issuer::new(parameters, key)
    }

    fn issue(&self, name: &str, hosts: &[&str], issuer: &Issuer<'static, KeyPair>) {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters(name, hosts).signed_by(&key, issuer).unwrap();
        self.write(name, &certificate.pem(), &key);
    }

    fn write(&self, name: &str, certificate: &str, key: &KeyPair) {
        fs::write(self.certificate(name), certificate).unwrap();
        fs::write(self.key(name), key.serialize_pem()).unwrap();
    }
}

fn parameters(name: &str, hosts: &[&str]) -> CertificateParams {
    let mut parameters =
        CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}
