//! The real binary and real servers over TLS: with and without it, accounts that require it, certificates of both
//! sides, and the error for each thing that does not fit.

#[path = "common/certificates.rs"]
mod certificates;
mod common;
#[path = "common/server.rs"]
mod server;

use std::path::Path;
use std::process::Command;

use certificates::Certificates;
use common::{fails, flifo, results, succeeds};
use server::Server;

/// Of an account that the server does not let in, with TLS or without.
const CHECK_THE_PASSWORD: &str = "check the name and the password";
/// By socket and by TCP; all without a password.
const USERS: &str = "CREATE USER plain; CREATE USER secure REQUIRE SSL; CREATE USER known REQUIRE X509; \
     GRANT ALL ON sbtest.* TO plain, secure, known";

/// A server that listens on a port, which is returned, too.
fn listening(options: &[String]) -> (Server, u16) {
    // The kernel finds a free port; between this and the server's start hardly anybody takes it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let own =
        [format!("--port={port}"), "--bind-address=127.0.0.1".into(), "--max-password-errors=1000".into()];
    let options: Vec<&str> = own.iter().chain(options).map(String::as_str).collect();
    let server = Server::start(&options);
    server.sql(USERS);
    (server, port)
}

fn by_tcp(user: &str, port: u16) -> String {
    format!("mysql://{user}@127.0.0.1:{port}/sbtest")
}

/// A short sweep.
fn sweep(target: &str, more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["sweep", "--policy", "none", "--rows", "2000", "--time", "0.2", "--warmup", "0.1"]);
    command.args(["--rounds", "1", "--target", target]).args(more);
    if !more.contains(&"--threads") {
        command.args(["--threads", "2"]);
    }
    command
}

/// The TLS of a sweep that must end well, as its results have it.
fn tls_of(target: &str, more: &[&str]) -> String {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    assert_eq!(succeeds(sweep(target, more).arg("--json").arg(&json)), "");
    let json = results(&json);
    for cell in json["cells"].as_array().unwrap() {
        assert_eq!(cell["failures"], serde_json::json!([]));
    }
    json["settings"]["server_tls"].as_str().unwrap().to_owned()
}

fn refused(target: &str, more: &[&str], words: &[&str]) {
    fails(&mut sweep(target, more), 5, words);
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_server_with_tls() {
    if !server::is_installed() {
        return;
    }
    let files = Certificates::new();
    let (server, port) = listening(&files.of_server());
    let accepted = || server.sql("SHOW GLOBAL STATUS LIKE 'Ssl_accepts'");

    // Plain where TLS is off: on a socket unless it is asked for, by TCP if it is forbidden.
    assert_eq!(tls_of(&server.by_socket("plain"), &[]), "");
    assert_eq!(tls_of(&by_tcp("plain", port), &["--tls", "off"]), "");
    assert_eq!(accepted(), "Ssl_accepts\t0");

    // All workloads, in replies of many records, and on more connections than event loops.
    let all = ["--workload", "point-select,read-only,update-index,read-write", "--threads", "1,40"];
    for protocol in ["prepared", "text"] {
        let tls = tls_of(&by_tcp("plain", port), &[&all[..], &["--protocol", protocol]].concat());
        assert!(tls.starts_with("TLSv1.3 TLS_"), "{tls}");
    }
    assert_ne!(accepted(), "Ssl_accepts\t0");
    assert_eq!(server.sql("SHOW GLOBAL STATUS LIKE 'Aborted_clients'"), "Aborted_clients\t0");

    accounts_that_require_tls(&server, port);
    certificates_of_clients(&files, port, &server);
    certificates_of_servers(&files, port, &server);

    server.sql("SET GLOBAL require_secure_transport=ON");
    refused(&by_tcp("plain", port), &["--tls", "off"], &["the server requires TLS: use --tls require"]);
    assert_ne!(tls_of(&by_tcp("plain", port), &[]), "");
    assert_eq!(tls_of(&server.by_socket("plain"), &[]), "", "a socket is secure");
}

fn accounts_that_require_tls(server: &Server, port: u16) {
    let advice = ["the account 'secure' requires TLS: use --tls require", "1045"];
    refused(&by_tcp("secure", port), &["--tls", "off"], &advice);
    refused(&server.by_socket("secure"), &[], &advice);
    // Of the account that administers, too.
    let admin = server.by_socket("secure");
    refused(&server.by_socket("plain"), &["--admin-target", &admin], &advice);
    assert_ne!(tls_of(&by_tcp("secure", port), &[]), "");
    assert_ne!(tls_of(&server.by_socket("secure"), &["--tls", "require"]), "");
    assert_ne!(tls_of(&by_tcp("secure", port), &["--tls", "require"]), "");

    // A wrong password is one, with TLS and without.
    let wrong = format!("mysql://secure:wrong@127.0.0.1:{port}/sbtest");
    for tls in ["off", "prefer", "require"] {
        refused(&wrong, &["--tls", tls], &[CHECK_THE_PASSWORD, "1045"]);
    }
}

fn certificates_of_clients(files: &Certificates, port: u16, server: &Server) {
    let (certificate, key) = (text(&files.certificate("client")), text(&files.key("client")));
    let shown = ["--ssl-cert", &certificate, "--ssl-key", &key];
    assert_ne!(tls_of(&by_tcp("known", port), &shown), "");
    let by_socket = server.by_socket("known");
    assert_ne!(tls_of(&by_socket, &[&shown[..], &["--tls", "require"]].concat()), "");
    for without in [&[][..], &["--tls", "off"], &["--tls", "require"]] {
        refused(&by_tcp("known", port), without, &["REQUIRE X509 needs --ssl-cert and --ssl-key"]);
    }
    let (certificate, key) = (text(&files.certificate("stranger")), text(&files.key("stranger")));
    let strange = ["--ssl-cert", &certificate, "--ssl-key", &key];
    refused(&by_tcp("known", port), &strange, &["--ssl-cert", "ssl_ca"]);
}

fn certificates_of_servers(files: &Certificates, port: u16, server: &Server) {
    let (ca, other) = (text(&files.certificate("ca")), text(&files.certificate("other")));
    let plain = by_tcp("plain", port);
    assert_ne!(tls_of(&plain, &["--ssl-ca", &ca]), "");
    assert_ne!(tls_of(&plain, &["--ssl-ca", &ca, "--ssl-verify-server-cert"]), "");
    for more in [&[][..], &["--ssl-verify-server-cert"]] {
        let wrong = [&["--ssl-ca", other.as_str()], more].concat();
        refused(&plain, &wrong, &["not from a CA that is trusted here", "--ssl-ca"]);
    }
    // The same address by a name that the certificate does not have.
    let by_name = plain.replace("127.0.0.1", "localhost");
    assert_ne!(tls_of(&by_name, &["--ssl-ca", &ca]), "");
    let verified = ["--ssl-ca", &ca, "--ssl-verify-server-cert"];
    refused(&by_name, &verified, &["127.0.0.1", "--ssl-verify-server-cert", "localhost"]);
    // A socket has no name.
    assert_ne!(tls_of(&server.by_socket("plain"), &[&verified[..], &["--tls", "require"]].concat()), "");
    // What is administered by a socket is not encrypted with it.
    let admin = server.root();
    assert_ne!(tls_of(&plain, &[&verified[..], &["--admin-target", &admin]].concat()), "");
    // The system's CAs.
    let of_system = |file: &str| {
        let mut command = sweep(&plain, &["--ssl-verify-server-cert"]);
        command.env("SSL_CERT_FILE", file).env_remove("SSL_CERT_DIR");
        command
    };
    succeeds(&mut of_system(&ca));
    fails(&mut of_system(&other), 5, &["not from a CA that is trusted here"]);
}

#[test]
fn a_server_that_signed_its_own_certificate_and_has_an_old_tls() {
    if !server::is_installed() {
        return;
    }
    let files = Certificates::new();
    files.self_signed("own", "127.0.0.1");
    let (certificate, key) = (text(&files.certificate("own")), text(&files.key("own")));
    let options =
        [format!("--ssl-cert={certificate}"), format!("--ssl-key={key}"), "--tls-version=TLSv1.2".into()];
    let (_server, port) = listening(&options);
    let plain = by_tcp("plain", port);
    let verified = ["--ssl-ca", &certificate, "--ssl-verify-server-cert", "--workload", "read-write"];
    for options in [&[][..], &verified] {
        let tls = tls_of(&plain, options);
        assert!(tls.starts_with("TLSv1.2 "), "{tls}");
    }
    let other = text(&files.certificate("ca"));
    refused(&plain, &["--ssl-ca", &other], &["--ssl-ca"]);
}

#[test]
fn a_server_without_tls() {
    if !server::is_installed() {
        return;
    }
    let (server, port) = listening(&["--skip-ssl".into()]);
    for options in [&[][..], &["--tls", "prefer"], &["--tls", "off"]] {
        assert_eq!(tls_of(&by_tcp("plain", port), options), "");
    }
    assert_eq!(tls_of(&server.by_socket("plain"), &["--tls", "prefer"]), "");
    let offers_none = ["offers no TLS", "ssl_cert", "--tls off"];
    refused(&by_tcp("plain", port), &["--tls", "require"], &offers_none);
    refused(&server.by_socket("plain"), &["--tls", "require"], &offers_none);
    // Nothing that is to be verified goes over a plain connection.
    let files = Certificates::new();
    refused(&by_tcp("plain", port), &["--ssl-ca", &text(&files.certificate("ca"))], &offers_none);
    let no_way_in = ["the server offers no TLS, so accounts with REQUIRE SSL cannot log in"];
    refused(&by_tcp("secure", port), &[], &no_way_in);
    refused(&server.by_socket("secure"), &[], &no_way_in);
}

#[test]
fn options_that_cannot_be_are_told_before_anything_connects() {
    let files = Certificates::new();
    let (ca, client) = (text(&files.certificate("ca")), text(&files.certificate("client")));
    let (key, other_key) = (text(&files.key("client")), text(&files.key("stranger")));
    let told = |target: &str, more: &[&str], words: &[&str]| fails(&mut sweep(target, more), 2, words);
    // Nobody answers there.
    let tcp = "mysql://app@127.0.0.1:1/sbtest";
    told("unix:/nowhere", &["--ssl-ca", &ca], &["--ssl-ca is for TLS", "--tls require"]);
    told(tcp, &["--ssl-ca", &ca, "--tls", "off"], &["--ssl-ca is for TLS", "--tls off"]);
    told(tcp, &["--ssl-verify-server-cert", "--tls", "prefer"], &["no effect", "--tls require"]);
    told(tcp, &["--tls", "always"], &["off, prefer, require"]);
    told(tcp, &["--ssl-ca", "/nowhere/ca.pem"], &["cannot read /nowhere/ca.pem", "--ssl-ca"]);
    told(tcp, &["--ssl-ca", &key], &["has no certificate", "--ssl-ca"]);
    told(tcp, &["--ssl-cert", &client], &["has no private key", "--ssl-key"]);
    told(tcp, &["--ssl-cert", &key, "--ssl-key", &key], &["has no certificate", "--ssl-cert"]);
    told(tcp, &["--ssl-cert", &client, "--ssl-key", &other_key], &["cannot be used together", "--ssl-key"]);
    fails(flifo().args(["sweep", "--tls", "require"]), 2, &["--tls is for a server", "--target"]);
}
