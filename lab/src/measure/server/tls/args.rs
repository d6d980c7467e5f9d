//! The TLS options of the command line, named as in the `mariadb` client, and their meaning for a place.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::measure::server::address::Place;
use crate::support::error::Error;

const HEADING: &str = "A live server";

/// Whether connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsMode {
    /// Never.
    Off,
    /// If the server offers it.
    Prefer,
    /// Always; a server without TLS is refused.
    Require,
}

/// Options for TLS.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsArgs {
    /// Encrypt connections [default: prefer; on a socket off; by TCP with one of the options below require]
    ///
    /// prefer encrypts if the server offers TLS. Without --ssl-ca and --ssl-verify-server-cert the server's certificate
    /// is not verified. An account with REQUIRE SSL needs --tls require on a socket, too.
    #[arg(help_heading = HEADING, long, value_name = "MODE", value_enum)]
    pub tls: Option<TlsMode>,

    /// PEM file of the CAs that may have issued the server's certificate; it is verified
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub ssl_ca: Option<PathBuf>,

    /// PEM file of the client's certificate, for accounts with REQUIRE X509 [default: the file of --ssl-key]
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub ssl_cert: Option<PathBuf>,

    /// PEM file of the client's private key, without a passphrase [default: the file of --ssl-cert]
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub ssl_key: Option<PathBuf>,

    /// Verify the server's certificate, and that it is for the host of the address
    ///
    /// Without --ssl-ca the system's CAs are used. The host must be among the certificate's alternative names; a socket
    /// has no host, so there only the issuer is verified.
    #[arg(help_heading = HEADING, long)]
    pub ssl_verify_server_cert: bool,
}

impl TlsArgs {
    /// The options that are given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let mut given = self.certificate_options();
        given.extend(self.tls.map(|_| "--tls"));
        given
    }

    fn certificate_options(&self) -> Vec<&'static str> {
        let all = [
            ("--ssl-ca", self.ssl_ca.is_some()),
            ("--ssl-cert", self.ssl_cert.is_some()),
            ("--ssl-key", self.ssl_key.is_some()),
            ("--ssl-verify-server-cert", self.ssl_verify_server_cert),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option).collect()
    }

    /// Refuses options that would have no effect on any of these places, or not always.
    pub(crate) fn check(&self, places: &[&Place]) -> Result<(), Error> {
        let Some(option) = self.certificate_options().first().copied() else { return Ok(()) };
        match self.tls {
            Some(TlsMode::Require) => Ok(()),
            Some(TlsMode::Off) => Err(Error::Usage(format!("{option} is for TLS: leave out --tls off"))),
            Some(TlsMode::Prefer) => Err(Error::Usage(format!(
                "--tls prefer goes without TLS if the server offers none, and then {option} has no effect: use --tls require"
            ))),
            None if places.iter().all(|place| matches!(place, Place::Unix(_))) => {
                Err(Error::Usage(format!("{option} is for TLS, and sockets go without: use --tls require")))
            }
            None => Ok(()),
        }
    }

    /// Whether connections to `place` are encrypted.
    pub(super) fn mode(&self, place: &Place) -> TlsMode {
        match (self.tls, place) {
            (Some(mode), _) => mode,
            (None, Place::Unix(_)) => TlsMode::Off,
            (None, Place::Tcp { .. }) if self.certificate_options().is_empty() => TlsMode::Prefer,
            (None, Place::Tcp { .. }) => TlsMode::Require,
        }
    }

    /// The files of the client's certificate and of its key.
    pub(super) fn certificate(&self) -> Option<(&Path, &Path)> {
        let certificate = self.ssl_cert.as_deref().or(self.ssl_key.as_deref())?;
        Some((certificate, self.ssl_key.as_deref().unwrap_or(certificate)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Cases;

    fn tcp() -> Place {
        Place::Tcp { host: "h".into(), port: 1 }
    }

    fn socket() -> Place {
        Place::Unix("/s".into())
    }

    fn with_ca(tls: Option<TlsMode>) -> TlsArgs {
        TlsArgs { tls, ssl_ca: Some("ca.pem".into()), ..TlsArgs::default() }
    }

    #[test]
    fn defaults_depend_on_the_place() {
        let none = TlsArgs::default();
        assert_eq!((none.mode(&tcp()), none.mode(&socket())), (TlsMode::Prefer, TlsMode::Off));
        let ca = with_ca(None);
        assert_eq!((ca.mode(&tcp()), ca.mode(&socket())), (TlsMode::Require, TlsMode::Off));
        for mode in [TlsMode::Off, TlsMode::Prefer, TlsMode::Require] {
            let given = TlsArgs { tls: Some(mode), ..TlsArgs::default() };
            assert_eq!((given.mode(&tcp()), given.mode(&socket())), (mode, mode));
        }
    }

    #[test]
    fn options_without_effect_are_refused() {
        let check = |args: TlsArgs, places: &[&Place]| args.check(places).map_err(|error| error.to_string());
        assert_eq!(check(TlsArgs::default(), &[&socket()]), Ok(()));
        assert_eq!(check(with_ca(None), &[&tcp(), &socket()]), Ok(()));
        assert_eq!(check(with_ca(Some(TlsMode::Require)), &[&socket()]), Ok(()));
        let mut cases = Cases::default();
        for (case, args, place) in [
            ("a socket", with_ca(None), socket()),
            ("--tls off", with_ca(Some(TlsMode::Off)), tcp()),
            ("--tls prefer", with_ca(Some(TlsMode::Prefer)), tcp()),
        ] {
            cases.add(case, check(args, &[&place]).unwrap_err());
        }
        cases.check("tls-options-without-effect");
    }

    #[test]
    fn one_file_may_hold_certificate_and_key() {
        let args = |cert: Option<&str>, key: Option<&str>| TlsArgs {
            ssl_cert: cert.map(PathBuf::from),
            ssl_key: key.map(PathBuf::from),
            ..TlsArgs::default()
        };
        let files = |args: TlsArgs| args.certificate().map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(files(args(None, None)), None);
        assert_eq!(files(args(Some("c"), None)), Some(("c".into(), "c".into())));
        assert_eq!(files(args(None, Some("k"))), Some(("k".into(), "k".into())));
        assert_eq!(files(args(Some("c"), Some("k"))), Some(("c".into(), "k".into())));
    }
}
