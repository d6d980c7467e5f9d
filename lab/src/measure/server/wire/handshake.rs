//! The handshake: the server greets, the client may begin TLS, then answers with an account and a proof; the server may
//! request more.

use std::fmt::Display;

use mysql_common::auth::plugins::{AuthProc, ChallengeResponsePlugin, Context};
use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest};
use mysql_common::proto::{MyDeserialize, MySerialize};

use super::{CAPABILITIES, Link, ServerError, WireError};
use crate::measure::server::address::Place;
use crate::measure::server::endpoint::Endpoint;
use crate::measure::server::tls::TlsMode;

const OK: u8 = 0x00;
const MORE: u8 = 0x01;
const SWITCH: u8 = 0xfe;
const ERROR: u8 = 0xff;
/// What a MariaDB says in front of its version, so that old replicas accept it.
const MARIADB_PREFIX: &str = "5.5.5-";
const PACKET_BYTES_MAX: u32 = 1 << 24;
/// utf8mb4_general_ci: of the request for TLS, which the account's answer repeats.
const COLLATION: u8 = 45;

/// What the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) version: String,
    /// The connection's number at the server.
    pub(crate) connection: u32,
}

/// Logs in on a new connection. The account's database is chosen later, so that its absence is an error of its
/// own.
pub(crate) fn log_in(link: &mut Link, endpoint: &Endpoint) -> Result<Greeting, WireError> {
    let greeting = link.receive()?;
    if greeting.first() == Some(&ERROR) {
        return Err(WireError::Server(ServerError::parse(greeting)?));
    }
    let greeting: HandshakePacket<'static> = parse::<HandshakePacket<'_>>(greeting)?.into_owned();
    let capabilities = begin_tls(link, endpoint, greeting.capabilities())?;
    let address = &endpoint.address;
    let mut exchange = Exchange {
        password: address.password.0.as_bytes(),
        is_socket: matches!(address.place, Place::Unix(_)),
        is_encrypted: link.is_encrypted(),
        scramble: greeting.nonce(),
    };
    let plugin = greeting.auth_plugin().filter(|plugin| method(plugin).is_ok());
    let plugin = plugin.unwrap_or(AuthPlugin::MysqlNativePassword);
    let mut proof = method(&plugin)?;
    let first = exchange.answer(&mut proof, &exchange.scramble.clone())?;
    let response = HandshakeResponse::new(
        first,
        greeting.server_version_parsed().unwrap_or((5, 5, 5)),
        Some(address.user.as_bytes()),
        None::<&[u8]>,
        Some(plugin),
        capabilities,
        None,
        PACKET_BYTES_MAX,
    );
    link.send(|body| response.serialize(body))?;
    exchange.go_on(link, proof)?;
    let version = greeting.server_version_str();
    let version = version.strip_prefix(MARIADB_PREFIX).unwrap_or(&version).to_owned();
    Ok(Greeting { version, connection: greeting.connection_id() })
}

/// Begins TLS if required; returns the client's capabilities from here on.
fn begin_tls(
    link: &mut Link,
    endpoint: &Endpoint,
    offered: CapabilityFlags,
) -> Result<CapabilityFlags, WireError> {
    let is_offered = offered.contains(CapabilityFlags::CLIENT_SSL);
    match endpoint.tls.mode {
        TlsMode::Off => return Ok(CAPABILITIES),
        TlsMode::Prefer if !is_offered => return Ok(CAPABILITIES),
        TlsMode::Require if !is_offered => return Err(WireError::NoTls),
        TlsMode::Prefer | TlsMode::Require => {}
    }
    let capabilities = CAPABILITIES | CapabilityFlags::CLIENT_SSL;
    let request = SslRequest::new(capabilities, PACKET_BYTES_MAX, COLLATION);
    link.send(|body| request.serialize(body))?;
    link.encrypt(&endpoint.tls, &endpoint.address.place)?;
    Ok(capabilities)
}

/// The ways to log in that send no password which others could read.
fn method(plugin: &AuthPlugin<'_>) -> Result<AuthProc, WireError> {
    match plugin {
        AuthPlugin::MysqlNativePassword | AuthPlugin::CachingSha2Password | AuthPlugin::Sha256Password => {
            plugin.init().map_err(unsupported)
        }
        other => Err(unsupported(format!(
            "the account's way to log in, {}, is not supported: use one with caching_sha2_password, or in MariaDB with mysql_native_password",
            String::from_utf8_lossy(other.as_bytes())
        ))),
    }
}

fn unsupported(what: impl Display) -> WireError {
    WireError::Io(std::io::Error::other(what.to_string()))
}

fn parse<'b, T: MyDeserialize<'b, Ctx = ()>>(body: &'b [u8]) -> Result<T, WireError> {
    ParseBuf(body).parse(()).map_err(|_| WireError::Protocol("a greeting that is none"))
}

/// What the ways to log in ask for.
struct Exchange<'a> {
    password: &'a [u8],
    is_socket: bool,
    is_encrypted: bool,
    scramble: Vec<u8>,
}

impl Exchange<'_> {
    fn answer(&self, proof: &mut AuthProc, challenge: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        let answer = proof.run(self, challenge).map_err(unsupported)?;
        Ok(answer.data().map(<[u8]>::to_vec))
    }

    /// Answers until the server is content, or is not.
    fn go_on(&mut self, link: &mut Link, mut proof: AuthProc) -> Result<(), WireError> {
        loop {
            let body = link.receive()?;
            let answer = match body.first() {
                Some(&OK) => return Ok(()),
                Some(&ERROR) => return Err(WireError::Server(ServerError::parse(body)?)),
                Some(&MORE) => self.answer(&mut proof, &body[1..])?,
                Some(&SWITCH) if body.len() > 1 => {
                    let switch: AuthSwitchRequest<'_> = parse(body)?;
                    proof = method(&switch.auth_plugin())?;
                    self.scramble = switch.plugin_data().to_vec();
                    Some(self.answer(&mut proof, &self.scramble)?.unwrap_or_default())
                }
                _ => return Err(WireError::Protocol("a step of a login that is not known")),
            };
            if let Some(answer) = answer {
                link.send(|body| body.extend_from_slice(&answer))?;
            }
        }
    }
}

impl Context for &Exchange<'_> {
    fn pass(&self) -> &[u8] {
        self.password
    }
    fn is_ipc_transport(&self) -> bool {
        self.is_socket
    }
    fn is_tls_transport(&self) -> bool {
        self.is_encrypted
    }
    fn scramble(&self) -> &[u8] {
        &self.scramble
    }
    fn server_key_pem(&self) -> Option<&[u8]> {
        None
    }
}
