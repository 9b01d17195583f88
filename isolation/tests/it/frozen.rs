//! The bytes of a plan on its way to keeper: changing them means a new version of it, because
//! noded and keeper may be one release apart.

use std::ffi::CString;
use std::fmt::Write as _;

use isolation::{
    Access, CapabilitySet, Exec, FileSystem, Filter, Instruction, Missing, MountFlags, Namespace,
    NamespaceSource, PidNamespace, Plan, Propagation, Resource, Slot, Step,
};

fn text(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

/// Every variant of version 1 once, in the order of its declaration.
fn every_step() -> Vec<Step> {
    [inheritance(), files(), powers()].concat()
}

fn inheritance() -> Vec<Step> {
    vec![
        Step::NotDumpable,
        Step::ResetSignalActions,
        Step::NewSession,
        Step::NewSessionKeyring,
        Step::NormalScheduler,
        Step::Nice(-3),
        Step::OomScoreAdjust(250),
        Step::StandardStreams,
        Step::ControllingTerminal,
        Step::ResourceLimit {
            resource: Resource::OpenFiles,
            soft: Some(1024),
            hard: None,
        },
        Step::Umask(0o022),
        Step::JoinNamespaces {
            kinds: vec![Namespace::Mount, Namespace::Network],
            from: NamespaceSource::Slot(Slot::Target),
        },
        Step::NewCgroupNamespace,
    ]
}

fn files() -> Vec<Step> {
    let flags = MountFlags {
        read_only: true,
        no_set_uid: false,
        no_devices: true,
        no_exec: false,
    };
    vec![
        Step::PrivateMounts,
        Step::OpenRoot { source: text("/r") },
        Step::Bind {
            source: text("/s"),
            target: text("t"),
            access: Access::ReadOnly,
            missing: Missing::Skip,
        },
        Step::Mount {
            file_system: FileSystem::Tmpfs,
            target: text("m"),
            options: vec![(text("mode"), text("0755"))],
            flags,
        },
        Step::Directory {
            target: text("d"),
            mode: 0o755,
        },
        Step::Device {
            target: text("n"),
            major: 1,
            minor: 3,
            mode: 0o666,
        },
        Step::Symlink {
            target: text("l"),
            content: text("c"),
        },
        Step::Mask { target: text("k") },
        Step::ReadOnly { target: text("o") },
        Step::PivotRoot,
    ]
}

fn powers() -> Vec<Step> {
    let instruction = Instruction {
        code: 6,
        jump_true: 1,
        jump_false: 2,
        operand: 0x7fff_0000,
    };
    vec![
        Step::HostName(text("h")),
        Step::WorkingDirectory(text("/")),
        Step::BoundingSet(CapabilitySet::TASK_DEFAULT),
        Step::SwitchIdentity {
            uid: 65534,
            gid: 65534,
            groups: vec![5],
        },
        Step::Capabilities(CapabilitySet::EMPTY),
        Step::NoNewPrivileges,
        Step::Seccomp(vec![Filter::from(vec![instruction])]),
        Step::CloseOnExecFrom(3),
        Step::EmptySignalMask,
    ]
}

#[test]
fn the_bytes_of_a_plan_are_frozen() {
    let plan = Plan {
        version: 1,
        namespaces: vec![Namespace::Mount, Namespace::Ipc, Namespace::Uts],
        pid_namespace: PidNamespace::New,
        slots: vec![Slot::Input, Slot::Output, Slot::Error, Slot::Network],
        steps: every_step(),
        exec: Exec {
            candidates: vec![text("/bin/true")],
            argv: vec![text("true")],
            env: vec![text("A=b")],
        },
    };
    insta::assert_snapshot!(hex(&plan));
}

#[test]
fn the_bytes_of_what_version_2_brought_are_frozen() {
    let plan = Plan {
        version: 2,
        namespaces: Vec::new(),
        pid_namespace: PidNamespace::New,
        slots: Vec::new(),
        steps: vec![Step::Reaper, Step::EmptySignalMask],
        exec: Exec {
            candidates: Vec::new(),
            argv: Vec::new(),
            env: Vec::new(),
        },
    };
    insta::assert_snapshot!(hex(&plan));
}

fn steps_of_version_3() -> Vec<Step> {
    vec![
        Step::Processors(vec![0, 300]),
        Step::TakeTree {
            source: text("/s"),
            propagation: Propagation::Private,
        },
        Step::TakeTree {
            source: text("/s"),
            propagation: Propagation::HostToTask,
        },
        Step::TakeTree {
            source: text("/s"),
            propagation: Propagation::Bidirectional,
        },
        Step::PlaceTree {
            tree: 2,
            target: text("t"),
            access: Access::ReadOnly,
        },
    ]
}

#[test]
fn the_bytes_of_what_version_3_brought_are_frozen() {
    let plan = Plan {
        version: 3,
        namespaces: Vec::new(),
        pid_namespace: PidNamespace::New,
        slots: Vec::new(),
        steps: steps_of_version_3(),
        exec: Exec {
            candidates: Vec::new(),
            argv: Vec::new(),
            env: Vec::new(),
        },
    };
    insta::assert_snapshot!(hex(&plan));
}

/// The encoded plan in lines of 32 bytes; it is read again on the way.
fn hex(plan: &Plan) -> String {
    let bytes = postcard::to_stdvec(plan).expect("encoded");
    assert_eq!(
        postcard::from_bytes::<Plan>(&bytes).expect("decoded"),
        *plan
    );
    let mut hex = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            write!(hex, "{byte:02x}").expect("a string");
        }
        hex.push('\n');
    }
    hex
}

#[test]
fn cut_or_changed_bytes_are_an_error_or_another_plan_and_never_a_panic() {
    let plan = Plan {
        version: 3,
        namespaces: Vec::new(),
        pid_namespace: PidNamespace::Keeper,
        slots: Vec::new(),
        steps: [every_step(), vec![Step::Reaper], steps_of_version_3()].concat(),
        exec: Exec {
            candidates: Vec::new(),
            argv: Vec::new(),
            env: Vec::new(),
        },
    };
    let bytes = postcard::to_stdvec(&plan).expect("encoded");
    for cut in 0..bytes.len() {
        assert!(
            postcard::from_bytes::<Plan>(&bytes[..cut]).is_err(),
            "cut at {cut}"
        );
        let mut odd = bytes.clone();
        odd[cut] ^= 0xff;
        if let Ok(other) = postcard::from_bytes::<Plan>(&odd) {
            assert_ne!(other, plan, "changed at {cut}");
        }
    }
}
