//! Plans as text: pure, so without root.

use std::path::PathBuf;

use isolation::{
    Access, Bind, ExecInto, FirstProcess, Identity, Namespace, Network, NewPrivileges, Plan,
    PlanError, Propagation, Root, SandboxSpec, SeccompProfile, Step, TaskLayout, Terminal, plan,
    plan_exec_into,
};

fn layout() -> TaskLayout {
    TaskLayout {
        shared: PathBuf::from("/var/lib/drover/alloc/0e7f/alloc"),
        task: PathBuf::from("/var/lib/drover/alloc/0e7f/web"),
    }
}

fn nobody() -> Identity {
    Identity::User {
        uid: 65534,
        gid: 65534,
        groups: vec![65534],
    }
}

fn exec() -> SandboxSpec {
    let mut spec = SandboxSpec::exec(layout(), nobody(), "bash");
    spec.args = vec!["-c".to_owned(), "local/pid.sh".to_owned()];
    spec.env
        .insert("NOMAD_ALLOC_DIR".to_owned(), "/alloc".to_owned());
    spec.env
        .insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    spec.hostname = Some("web-0".to_owned());
    spec.network = Network::Descriptor;
    spec
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_plan_of_an_exec_task_reads_from_top_to_bottom() {
    insta::assert_snapshot!(plan(&exec()).expect("a plan").to_string());
}

#[test]
fn the_plan_of_a_raw_exec_task_has_no_namespace_and_no_mount() {
    let mut spec = SandboxSpec::raw_exec(layout(), "bash");
    spec.args = vec!["-c".to_owned(), "local/pid.sh".to_owned()];
    insta::assert_snapshot!(plan(&spec).expect("a plan").to_string());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_plan_of_a_second_process_joins_instead_of_making() {
    let request = ExecInto {
        command: "/bin/ls".to_owned(),
        args: vec!["/".to_owned()],
        terminal: Terminal::StandardInput,
    };
    insta::assert_snapshot!(
        plan_exec_into(&exec(), &request)
            .expect("a plan")
            .to_string()
    );
}

#[test]
fn a_plan_survives_the_way_to_the_keeper() {
    let before = plan(&exec()).expect("a plan");
    let bytes = postcard::to_stdvec(&before).expect("encoded");
    let after: Plan = postcard::from_bytes(&bytes).expect("decoded");
    assert_eq!(after, before);
    assert_eq!(
        after.version, 1,
        "what an older keeper can start it does start"
    );
}

#[test]
fn a_reaper_needs_process_ids_of_its_own_and_a_newer_keeper() {
    let reaped = SandboxSpec {
        first_process: FirstProcess::Reaper,
        ..exec()
    };
    let steps = plan(&reaped).expect("a plan").steps;
    let last = &steps[steps.len() - 2..];
    assert_eq!(last, [Step::Reaper, Step::EmptySignalMask]);
    assert_eq!(plan(&reaped).expect("a plan").version, 2);
    let mut shared = reaped.clone();
    shared.namespaces.remove(&Namespace::Pid);
    let error = plan(&shared).expect_err("no PID 1 to be");
    assert!(matches!(error, PlanError::ReaperWithoutPidNamespace));
    // A second process finds a first one there.
    let request = ExecInto {
        command: "ls".to_owned(),
        args: Vec::new(),
        terminal: Terminal::None,
    };
    let second = plan_exec_into(&reaped, &request).expect("a plan");
    assert_eq!(second.version, 1);
}

#[test]
fn without_no_new_privileges_the_filter_comes_before_the_loss_of_root() {
    let spec = SandboxSpec {
        new_privileges: NewPrivileges::Allowed,
        ..exec()
    };
    let text = plan(&spec).expect("a plan").to_string();
    let position = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("no {what} in {text}"))
    };
    assert!(position("seccomp:") < position("bounding set:"));
    assert!(!text.contains("no new privileges"));
}

#[test]
fn a_raw_exec_task_can_have_a_filter_too() {
    let spec = SandboxSpec {
        seccomp: SeccompProfile::Default,
        ..SandboxSpec::raw_exec(layout(), "/bin/true")
    };
    let plan = plan(&spec).expect("a plan");
    assert!(plan.to_string().contains("seccomp:"));
    assert_eq!(plan.exec.candidates, [c"/bin/true".to_owned()]);
}

#[test]
fn specifications_that_contradict_themselves_are_refused() {
    let without = |kind| {
        let mut spec = exec();
        spec.namespaces.remove(&kind);
        plan(&spec)
    };
    assert!(matches!(
        without(Namespace::Mount),
        Err(PlanError::RootWithoutMountNamespace)
    ));
    assert!(matches!(
        without(Namespace::Uts),
        Err(PlanError::HostNameWithoutNamespace)
    ));

    let mut spec = exec();
    spec.namespaces.insert(Namespace::Network);
    assert!(matches!(plan(&spec), Err(PlanError::NewNetwork)));

    let mut spec = SandboxSpec::raw_exec(layout(), "true");
    spec.namespaces.insert(Namespace::Pid);
    assert!(matches!(
        plan(&spec),
        Err(PlanError::PidWithoutMountNamespace)
    ));
}

#[test]
fn values_that_the_kernel_cannot_take_are_refused_by_name() {
    let empty = SandboxSpec {
        command: String::new(),
        ..exec()
    };
    assert!(matches!(plan(&empty), Err(PlanError::EmptyCommand)));

    let torn = SandboxSpec {
        args: vec!["a\0b".to_owned()],
        ..exec()
    };
    assert!(
        matches!(plan(&torn), Err(PlanError::NulByte { subject, .. }) if subject == "argument")
    );

    let mut variable = exec();
    variable.env.insert("A=B".to_owned(), "c".to_owned());
    assert!(matches!(plan(&variable), Err(PlanError::VariableName { name }) if name == "A=B"));

    let nice = SandboxSpec { nice: 20, ..exec() };
    assert!(matches!(
        plan(&nice),
        Err(PlanError::OutOfRange {
            subject: "nice",
            ..
        })
    ));

    let relative = SandboxSpec {
        working_directory: PathBuf::from("tmp"),
        ..exec()
    };
    assert!(matches!(
        plan(&relative),
        Err(PlanError::RelativePath { .. })
    ));
}

#[test]
fn a_bind_may_neither_climb_nor_cover_the_root() {
    for target in ["/../etc", "/a/../../b", "relative", "/"] {
        let mut spec = exec();
        let Root::ReadOnlyHostView { binds, .. } = &mut spec.root else {
            unreachable!()
        };
        binds.push(Bind {
            source: PathBuf::from("/srv"),
            target: PathBuf::from(target),
            access: Access::ReadWrite,
            propagation: Propagation::Private,
        });
        assert!(
            matches!(plan(&spec), Err(PlanError::RelativePath { .. })),
            "{target}"
        );
    }
}

/// A volume at `target`.
fn volume(target: &str, propagation: Propagation) -> Bind {
    Bind {
        source: PathBuf::from("/srv"),
        target: PathBuf::from(target),
        access: Access::ReadOnly,
        propagation,
    }
}

fn with_binds(added: &[Bind], hidden: &[&str]) -> Result<Plan, PlanError> {
    let mut spec = exec();
    let Root::ReadOnlyHostView { binds, masked, .. } = &mut spec.root else {
        unreachable!()
    };
    binds.extend_from_slice(added);
    masked.extend(hidden.iter().map(PathBuf::from));
    plan(&spec)
}

#[test]
fn a_connected_volume_is_taken_before_mounts_are_private() {
    let binds = [
        volume("/first", Propagation::HostToTask),
        volume("/own", Propagation::Private),
        volume("/second", Propagation::Bidirectional),
    ];
    let plan = with_binds(&binds, &[]).expect("a plan");
    assert_eq!(plan.version, 3);
    let text = plan.to_string();
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.get(4..))
        .filter(|line| {
            ["take", "place", "mounts: private", "bind: /srv"]
                .iter()
                .any(|word| line.starts_with(word))
        })
        .collect();
    assert_eq!(
        lines,
        [
            "take: /srv, later mounts of the host are seen",
            "take: /srv, later mounts travel both ways",
            "mounts: private from here",
            "place: taken 0 at /first, read-only",
            "bind: /srv at /own, read-only",
            "place: taken 1 at /second, read-only",
        ]
    );
}

#[test]
fn nothing_is_mounted_below_a_bidirectional_volume() {
    let outer = volume("/data", Propagation::Bidirectional);
    let inner = volume("/data/sub", Propagation::Private);
    for (binds, hidden, refused) in [
        (vec![outer.clone(), inner.clone()], vec![], true),
        (vec![inner, outer.clone()], vec![], false),
        (vec![outer.clone()], vec!["/data/key"], true),
        (vec![outer.clone()], vec!["/database"], false),
        (
            vec![volume("/private", Propagation::Bidirectional)],
            vec![],
            true,
        ),
        (
            vec![volume("/data", Propagation::HostToTask)],
            vec!["/data/key"],
            false,
        ),
        (vec![outer.clone(), outer], vec![], true),
    ] {
        let found = with_binds(&binds, &hidden);
        let inside = matches!(found, Err(PlanError::InsideBidirectional { .. }));
        assert_eq!(inside, refused, "{binds:?} {hidden:?}: {found:?}");
        assert_eq!(found.is_err(), refused, "{found:?}");
    }
    let many: Vec<Bind> = (0..17)
        .map(|number| volume(&format!("/{number}"), Propagation::HostToTask))
        .collect();
    with_binds(&many[..16], &[]).expect("as many as there may be");
    let error = with_binds(&many, &[]).expect_err("too many");
    assert!(matches!(error, PlanError::OutOfRange { .. }), "{error}");
}

#[test]
fn a_task_starts_on_its_processors_and_a_newer_keeper_is_needed_for_it() {
    let spec = SandboxSpec {
        processors: vec![1, 3],
        ..exec()
    };
    let plan = plan(&spec).expect("a plan");
    assert_eq!(plan.version, 3);
    assert!(plan.to_string().contains("processors: [1, 3]"));
    let request = ExecInto {
        command: "ls".to_owned(),
        args: Vec::new(),
        terminal: Terminal::None,
    };
    let second = plan_exec_into(&spec, &request).expect("a plan");
    assert!(second.steps.contains(&Step::Processors(vec![1, 3])));
}
