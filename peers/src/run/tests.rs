//! What a run takes of the system.

use clap::Parser as _;

use super::*;

fn plan(line: &str) -> Plan {
    let args = Args::try_parse_from(["flifo-peers"].into_iter().chain(line.split_whitespace())).unwrap();
    Plan::new(&args, 2).unwrap()
}

#[test]
fn a_load_takes_what_it_touches() {
    let bytes = |workloads: &str| {
        let line = "--peers flifo,lmdb --rows 2000 --cache 64M --threads 1,4 --workloads";
        memory_bytes(&plan(&format!("{line} {workloads}")))
    };
    assert_eq!(bytes("update"), (2 * 64 << 20) + 4 * THREAD_BYTES + 2_000 * size_of::<Row>() as u64);
    assert_eq!(bytes("load,update"), bytes("update") + (2 * 64 << 20));
    let too_much = plan("--peers flifo,lmdb --threads 1 --cache 9000000000G");
    assert_eq!(check_limits(&too_much, Path::new(".")).unwrap_err().exit_code(), 4);
}
