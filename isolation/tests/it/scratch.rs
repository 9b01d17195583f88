//! Secrets in memory: written by noded, seen by the task, gone afterwards.

use std::fs;

use isolation::scratch;

use crate::fixture::{Fixture, below};

const SIZE_BYTES: u64 = 1 << 20;

#[test]
fn a_task_reads_secrets_that_never_touch_the_disk() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let layout = fixture.layout();
    let secrets = below(&layout, "secrets");
    scratch::mount(&secrets, SIZE_BYTES, 0o777).expect("mounted");
    fs::write(secrets.join("token"), "hush\n").expect("written");
    let script = "cat /secrets/token; cp /bin/true /secrets/true; /secrets/true 2>/dev/null \
                  || echo no programs; head -c 2000000 /dev/zero 2>/dev/null > /secrets/big \
                  || echo full";
    let outcome = fixture.run(&fixture.exec(script));
    scratch::unmount_all(std::slice::from_ref(&secrets)).expect("unmounted");
    assert_eq!(outcome.success(), "hush\nno programs\nfull\n");
    assert_eq!(fs::read_dir(&secrets).expect("directory").count(), 0);
}

#[test]
fn unmounting_goes_on_and_what_is_gone_already_is_no_error() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let layout = fixture.layout();
    let (secrets, private) = (below(&layout, "secrets"), below(&layout, "private"));
    scratch::mount(&secrets, SIZE_BYTES, 0o700).expect("mounted");
    let paths = [secrets.clone(), private, below(&layout, "nowhere")];
    scratch::unmount_all(&paths).expect("all done");
    scratch::unmount_all(&paths).expect("still done");
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(secrets.to_str().expect("utf-8")));
}

#[test]
fn a_mount_on_nothing_names_the_place() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let nowhere = below(&fixture.layout(), "nowhere");
    let error = scratch::mount(&nowhere, SIZE_BYTES, 0o700).expect_err("no directory");
    assert!(error.to_string().contains("nowhere"), "{error}");
}
