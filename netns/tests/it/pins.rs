//! Namespaces that are kept by a name, in a folder that ends with the test.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use netns::{PinError, create_loopback_only, open_pinned, pin, unpin};
use tempfile::TempDir;

use crate::fresh;

/// A folder for pins; what a failed test left mounted there goes first.
struct Pins(TempDir);

impl Pins {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("pin")
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _best_effort = unpin(&self.path());
    }
}

fn identity(namespace: impl AsFd) -> u64 {
    rustix::fs::fstat(namespace).expect("stat").st_ino
}

/// What is pinned there, which must be something.
fn pinned(pins: &Pins) -> OwnedFd {
    open_pinned(&pins.path()).expect("opened").expect("pinned")
}

#[test]
fn a_pinned_namespace_outlives_every_descriptor_of_it() {
    let Some(namespace) = fresh() else { return };
    let pins = Pins::new();
    let listener = netns::within(&namespace, || std::net::TcpListener::bind("127.0.0.1:0"))
        .expect("entered")
        .expect("bound");
    let address = listener.local_addr().expect("address");
    drop(listener);
    let before = identity(&namespace);
    pin(&pins.path(), &namespace).expect("pinned");
    drop(namespace);
    let again = pinned(&pins);
    assert_eq!(identity(&again), before);
    netns::within(&again, || std::net::TcpListener::bind(address))
        .expect("entered")
        .expect("its loopback is still up");
}

#[test]
fn pinning_again_succeeds_and_pinning_another_is_refused() {
    let Some(namespace) = fresh() else { return };
    let pins = Pins::new();
    pin(&pins.path(), &namespace).expect("pinned");
    pin(&pins.path(), &namespace).expect("pinned already");
    let other = create_loopback_only().expect("a namespace");
    let refused = pin(&pins.path(), &other);
    assert!(
        matches!(refused, Err(PinError::Taken { .. })),
        "{refused:?}"
    );
    assert_eq!(identity(pinned(&pins)), identity(&namespace));
}

#[test]
fn an_unpinned_namespace_is_gone_with_its_name_and_unpinning_again_succeeds() {
    let Some(namespace) = fresh() else { return };
    let pins = Pins::new();
    pin(&pins.path(), &namespace).expect("pinned");
    // One mount, however often it was pinned.
    pin(&pins.path(), &namespace).expect("pinned already");
    unpin(&pins.path()).expect("unpinned");
    assert!(!pins.path().exists());
    assert!(open_pinned(&pins.path()).expect("no error").is_none());
    unpin(&pins.path()).expect("unpinned already");
}

#[test]
fn a_namespace_that_is_open_goes_on_when_it_is_unpinned() {
    let Some(namespace) = fresh() else { return };
    let pins = Pins::new();
    pin(&pins.path(), &namespace).expect("pinned");
    let open = pinned(&pins);
    drop(namespace);
    unpin(&pins.path()).expect("unpinned");
    let links = netns::within(&open, netns::list_links).expect("entered");
    assert_eq!(links.expect("links")[0].name, "lo");
}

#[test]
fn a_file_that_a_crash_left_is_no_pin_and_is_pinned_over() {
    let Some(namespace) = fresh() else { return };
    let pins = Pins::new();
    std::fs::write(pins.path(), "").expect("written");
    assert!(open_pinned(&pins.path()).expect("no error").is_none());
    pin(&pins.path(), &namespace).expect("pinned");
    assert_eq!(identity(pinned(&pins)), identity(&namespace));
}

#[test]
fn a_file_that_nothing_is_mounted_on_is_removed_by_unpinning() {
    let pins = Pins::new();
    std::fs::write(pins.path(), "").expect("written");
    // Without root the kernel refuses every unmount, also of what is not mounted.
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    unpin(&pins.path()).expect("unpinned");
    assert!(!pins.path().exists());
}

#[test]
fn only_a_network_namespace_can_be_pinned() {
    let pins = Pins::new();
    let file = std::fs::File::open("/dev/null").expect("null");
    let mounts = std::fs::File::open("/proc/self/ns/mnt").expect("mount namespace");
    for descriptor in [file.as_fd(), mounts.as_fd()] {
        let refused = pin(&pins.path(), descriptor);
        assert!(
            matches!(refused, Err(PinError::NotANamespace { .. })),
            "{refused:?}"
        );
    }
    assert!(!pins.path().exists());
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let Some(namespace) = fresh() else { return };
    let pins = Pins::new();
    let elsewhere = pins.0.path().join("elsewhere");
    std::fs::write(&elsewhere, "").expect("written");
    std::os::unix::fs::symlink(&elsewhere, pins.path()).expect("linked");
    assert!(matches!(
        pin(&pins.path(), &namespace),
        Err(PinError::Open { .. })
    ));
    std::fs::remove_file(pins.path()).expect("removed");
    assert!(open_pinned(&elsewhere).expect("no error").is_none());
}
