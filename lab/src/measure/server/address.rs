//! The address of the server, with account: `mysql://user:password@host:port/db` or
//! `unix:/path/to/socket?user=..&password=..&db=..`.
//!
//! Letters with a meaning in an address are escaped as in any URL, `%40` for an `@`. A password never appears in
//! messages or results. An invalid address may have a password anywhere in it, so messages quote no part of it.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

const PORT: u16 = 3306;
const DATABASE: &str = "sbtest";
/// The variable in which clients of MySQL and MariaDB find a password that should not appear in a list of processes.
const PASSWORD_VARIABLE: &str = "MYSQL_PWD";
/// Characters that must be escaped in a part of an address.
const SPECIAL: &AsciiSet =
    &CONTROLS.add(b' ').add(b'%').add(b'@').add(b':').add(b'/').add(b'?').add(b'&').add(b'#');
const FORMS: &str = "use mysql://user[:password]@host[:port]/database or unix:/path/to/socket?user=..&db=..";

/// A server, an account, a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub place: Place,
    pub user: String,
    pub password: Password,
    pub database: String,
}

/// How the server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// A password, which no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Place {
    /// The socket addresses of a host by name or number.
    pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let found = (host, port).to_socket_addrs();
        match found.map(Iterator::collect::<Vec<_>>) {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            Ok(_) => Err(format!("host '{host}' has no address")),
            Err(error) => Err(format!("host '{host}' is not known: {error}")),
        }
    }

    /// Whether it is certainly this machine: a socket file, or a host whose every address is loopback.
    pub fn is_local(&self) -> bool {
        let is_loopback = |address: &SocketAddr| match address.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
        };
        match self {
            Place::Unix(_) => true,
            Place::Tcp { host, port } => {
                Place::resolve(host, *port).is_ok_and(|addresses| addresses.iter().all(is_loopback))
            }
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let given =
            if let Some(rest) = text.strip_prefix("mysql://").or_else(|| text.strip_prefix("mariadb://")) {
                of_url(rest)
            } else if let Some(rest) = text.strip_prefix("unix:") {
                of_socket(rest)
            } else {
                return Err(FORMS.into());
            };
        let Given { place, user, password, database } = given?;
        let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let user = user.or_else(|| environment("USER")).unwrap_or_else(|| "root".into());
        let password = Password(password.or_else(|| environment(PASSWORD_VARIABLE)).unwrap_or_default());
        let database = database.unwrap_or_else(|| DATABASE.into());
        // It is written into statements.
        if database.contains(['`', '\0']) {
            return Err("a database whose name has a backquote is not supported".into());
        }
        Ok(Address { place, user, password, database })
    }
}

/// The given parts of an address; the others have defaults.
struct Given {
    place: Place,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
}

fn of_url(rest: &str) -> Result<Given, String> {
    if rest.contains('?') {
        return Err(format!("an address of a host has no '?'; {FORMS}"));
    }
    let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
    // Behind a password with a slash the rest of it would be taken for a database.
    if database.contains(['@', '/']) {
        return Err(format!("within a name or a password '/' is written %2F, and '@' %40; {FORMS}"));
    }
    let (account, server) =
        server.rsplit_once('@').map_or(("", server), |(account, server)| (account, server));
    let (user, password) =
        account.split_once(':').map_or((account, None), |(user, password)| (user, Some(password)));
    // [::1]:3306 has its colons in brackets.
    let (host, port) = match server.strip_prefix('[').and_then(|server| server.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or(FORMS)?)),
        None => server.split_once(':').map_or((server, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None => PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("the port is not a number from 1 to 65535; {FORMS}"))?,
    };
    let host = decoded(host)?.unwrap_or_else(|| "localhost".into());
    Ok(Given {
        place: Place::Tcp { host, port },
        user: decoded(user)?,
        password: password.map(decoded).transpose()?.map(Option::unwrap_or_default),
        database: decoded(database)?,
    })
}

fn of_socket(rest: &str) -> Result<Given, String> {
    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    // unix:///path as other programs write it.
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = decoded(path)?.ok_or_else(|| format!("no socket is named; {FORMS}"))?;
    let mut given = Given { place: Place::Unix(path.into()), user: None, password: None, database: None };
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = decoded(value)?;
        match name {
            "user" => given.user = value,
            "password" => given.password = Some(value.unwrap_or_default()),
            "db" | "database" => given.database = value,
            _ => {
                return Err("the options of a socket are user, password and db".into());
            }
        }
    }
    Ok(given)
}

/// `None` if it is empty.
fn decoded(text: &str) -> Result<Option<String>, String> {
    let text = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| "an address is UTF-8, with %XX of UTF-8".to_owned())?;
    Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = |text| utf8_percent_encode(text, SPECIAL);
        let (user, database) = (encoded(&self.user), encoded(&self.database));
        match &self.place {
            Place::Tcp { host, port } if host.contains(':') => {
                write!(f, "mysql://{user}@[{host}]:{port}/{database}")
            }
            Place::Tcp { host, port } => write!(f, "mysql://{user}@{host}:{port}/{database}"),
            Place::Unix(path) => write!(f, "unix:{}?user={user}&db={database}", path.display()),
        }
    }
}

/// Words of a command line without the passwords of addresses in them.
pub(crate) fn without_passwords(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let shown =
        |word: &str| word.parse::<Address>().map_or_else(|_| word.to_owned(), |address| address.to_string());
    let each = |word: String| match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => format!("{option}={}", shown(value)),
        _ => shown(&word),
    };
    words.into_iter().map(each).collect()
}

/// A message about a command line of these words, without any word that may be an address or a part of one: the word
/// after `--target`, and everything that looks like an address.
pub(crate) fn without_addresses(mut message: String, words: impl IntoIterator<Item = String>) -> String {
    let mut is_target = false;
    for word in words {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, value),
            _ => (word.as_str(), word.as_str()),
        };
        if option.starts_with("--") {
            is_target = ["--target", "--admin-target"].contains(&option);
            if option == value {
                continue;
            }
        }
        if is_target || word.contains('@') || word.contains("password") {
            for shown in [word.as_str(), value].into_iter().chain(value.split(',')) {
                message = message
                    .replace(&format!("'{shown}'"), "'***'")
                    .replace(&format!("'-- {shown}'"), "'-- ***'");
            }
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn urls() {
        let address = parsed("mysql://app:s%40cr%3At@127.0.0.1:3307/bench");
        assert_eq!(address.place, Place::Tcp { host: "127.0.0.1".into(), port: 3307 });
        assert_eq!((address.user.as_str(), address.password.0.as_str()), ("app", "s@cr:t"));
        assert_eq!(address.database, "bench");
        let address = parsed("mysql://app@[::1]/x");
        assert_eq!(address.place, Place::Tcp { host: "::1".into(), port: 3306 });
        // A password with an unencoded @.
        let address = parsed("mysql://app:p@ss@localhost");
        assert_eq!((address.password.0.as_str(), address.database.as_str()), ("p@ss", "sbtest"));
    }

    #[test]
    fn sockets() {
        let address = parsed("unix:/run/mysqld/mysqld.sock?user=app&password=a%26b&db=bench");
        assert_eq!(address.place, Place::Unix("/run/mysqld/mysqld.sock".into()));
        assert_eq!((address.user.as_str(), address.password.0.as_str()), ("app", "a&b"));
        assert_eq!(address.database, "bench");
        assert_eq!(parsed("unix:///tmp/s?user=a").place, Place::Unix("/tmp/s".into()));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in [
            "localhost",
            "postgres://a@b/c",
            "mysql://a@b:0/c",
            "mysql://a@b:port/c",
            "mysql://a@[::1]3306/c",
            "mysql://a@b/c?ssl=1",
            "mysql://a:1/2@b/c",
            "mysql://a@b/c/d",
            "unix:",
            "unix:/s?colour=blue",
            "unix:/s?db=a%60b",
            "mysql://%ff@b/c",
        ] {
            let error = wrong.parse::<Address>().unwrap_err();
            assert!(!error.contains('\n'), "{wrong}: {error}");
        }
    }

    #[test]
    fn this_machine_is_told_from_others() {
        for local in ["mysql://a@127.0.0.1/b", "mysql://a@127.3.2.1/b", "mysql://a@[::1]/b", "unix:/s"] {
            assert!(parsed(local).place.is_local(), "{local}");
        }
        for other in [
            "mysql://a@10.0.0.1/b",
            "mysql://a@192.168.1.1/b",
            "mysql://a@0.0.0.0/b",
            "mysql://a@[2001:db8::1]/b",
        ] {
            assert!(!parsed(other).place.is_local(), "{other}");
        }
    }

    #[test]
    fn what_is_no_address_is_not_quoted() {
        for wrong in [
            "secret",
            "mysql://app:secret/more@h/b",
            "mysql://app:1/secret@h/b",
            "mysql://app@h:secret/b",
            "mysql://app@h/b?password=secret",
            "unix:/s?secret",
            "unix:/s?secret=secret",
        ] {
            let error = wrong.parse::<Address>().unwrap_err();
            assert!(!error.contains("secret"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for text in ["mysql://app:secret@localhost:3306/b", "unix:/s?user=app&password=secret&db=b"] {
            let address = parsed(text);
            assert_eq!(address.password.0, "secret");
            assert!(!format!("{address} {address:?}").contains("secret"));
            assert_eq!(parsed(&address.to_string()).user, "app");
        }
        let words = [
            "flifo",
            "--target",
            "mysql://a:secret@h/b",
            "--admin-target=unix:/s?user=r&password=secret",
            "--time",
            "2",
        ];
        let shown = without_passwords(words.map(String::from)).join(" ");
        assert_eq!(
            shown,
            "flifo --target mysql://a@h:3306/b --admin-target=unix:/s?user=r&db=sbtest --time 2"
        );
    }
}
