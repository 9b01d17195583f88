//! KEKs that the host hands over.

use controlplane_keyring::{FileKeks, HostKeks, Kek, KekId, KekSource, KekStore as _, WrappingKek};
use tempfile::TempDir;

struct Host {
    directory: TempDir,
    credential: Kek,
}

impl Host {
    /// A host with a credential.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let credential = Kek::generate();
        let path = directory.path().join("drover-kek");
        std::fs::write(path, credential.to_text().as_bytes()).expect("written");
        Self {
            directory,
            credential,
        }
    }

    fn keks(&self, wrapping: WrappingKek) -> HostKeks {
        let files = FileKeks::new(self.directory.path().join("keyring"));
        let source = KekSource::Credential {
            directory: Some(self.directory.path().to_owned()),
            name: "drover-kek".to_owned(),
        };
        HostKeks::new(files, vec![source], wrapping)
    }
}

#[test]
fn a_credential_is_read_beside_the_files_and_wraps_where_it_is_active() {
    let host = Host::new();
    let keks = host.keks(WrappingKek::Source(0));
    let of_file = Kek::generate();
    keks.store(&of_file).expect("stored");
    let loaded = keks.load().expect("the files are listed");
    let ids: Vec<KekId> = loaded.keks.iter().map(Kek::id).collect();
    assert_eq!(ids, [of_file.id(), host.credential.id()]);
    assert_eq!(loaded.wanted, Some(host.credential.id()));
    assert!(loaded.provided.contains(&host.credential.id()));
    assert!(!loaded.provided.contains(&of_file.id()));
    let passive = host.keks(WrappingKek::AnyOne).load().expect("listed");
    assert_eq!(passive.wanted, None);
}

#[test]
fn a_kek_that_the_host_hands_over_is_never_written_to_the_disk() {
    let host = Host::new();
    let keks = host.keks(WrappingKek::Source(0));
    keks.store(&host.credential).expect("it is there");
    assert!(!host.directory.path().join("keyring").exists());
}

#[test]
fn a_missing_or_damaged_credential_is_named_and_hinders_no_file() {
    let host = Host::new();
    let keks = host.keks(WrappingKek::Source(0));
    let of_file = Kek::generate();
    keks.store(&of_file).expect("stored");
    let path = host.directory.path().join("drover-kek");
    for damage in ["drover-kek 1\nxyz", ""] {
        std::fs::write(&path, damage).expect("written");
        let loaded = keks.load().expect("the files are listed");
        assert_eq!(loaded.keks.len(), 1);
        let error = loaded.unusable[0].to_string();
        assert!(error.contains("drover-kek"), "{error}");
    }
    std::fs::remove_file(&path).expect("removed");
    let loaded = keks.load().expect("the files are listed");
    assert_eq!((loaded.keks.len(), loaded.unusable.len()), (1, 1));
    assert_eq!(loaded.wanted, None);
}

#[test]
fn a_server_outside_of_systemd_reads_its_files_all_the_same() {
    let host = Host::new();
    let files = FileKeks::new(host.directory.path().join("keyring"));
    let source = KekSource::Credential {
        directory: None,
        name: "drover-kek".to_owned(),
    };
    let keks = HostKeks::new(files, vec![source], WrappingKek::Source(0));
    keks.store(&host.credential).expect("it is written then");
    let loaded = keks.load().expect("the files are listed");
    assert_eq!(loaded.keks.len(), 1);
    let error = loaded.unusable[0].to_string();
    assert!(error.contains("LoadCredential=drover-kek:FILE"), "{error}");
}
