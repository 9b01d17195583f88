//! The registry against marks that are given.

use noded_core::RunEpoch;

use super::*;

fn run(alloc: u128, epoch: u64) -> RunKey {
    RunKey::new(AllocId::from_u128(alloc), "web", RunEpoch(epoch))
}

fn mark(number: u64) -> Option<FileMark> {
    Some(FileMark::numbered(number))
}

fn sources(files: &[(&str, u64)]) -> Sources {
    let mut sources = Sources::default();
    for (path, number) in files {
        sources.add(Path::new(path), mark(*number));
    }
    sources
}

/// One look that finds everything as `find` says; what is told of it.
fn look(
    watch: &TemplateWatch,
    seconds: u64,
    find: impl Fn(&Path) -> Option<FileMark>,
) -> Vec<String> {
    let (looks, end) = watch.next_look(None);
    assert_eq!(end, None);
    let found = looks.into_iter().map(|look| {
        let mark = find(&look.path);
        (look, mark)
    });
    let now = Moment(Duration::from_secs(seconds));
    let told = watch.take(found.collect(), now);
    let told = told.into_iter().map(|event| match event {
        Event::Run {
            run,
            event: RunEvent::TemplatesChanged { offsets },
        } => format!("{}: {offsets:?}", run.epoch.0),
        Event::Run {
            event: RunEvent::Progress { message, .. },
            ..
        } => message,
        other => format!("{other:?}"),
    });
    told.collect()
}

#[test]
fn a_changed_file_is_told_once_with_all_its_templates() {
    let watch = TemplateWatch::default();
    watch.record(&run(1, 1), 0, sources(&[("web/a", 1)]));
    watch.record(&run(1, 1), 1, sources(&[("web/b", 1)]));
    watch.record(&run(1, 1), 2, sources(&[("web/a", 1), ("web/b", 1)]));
    assert!(look(&watch, 0, |_| mark(2)).is_empty(), "not followed yet");
    watch.follow(&run(1, 1));
    assert!(look(&watch, 2, |_| mark(1)).is_empty());
    let a_changed = |path: &Path| mark(if path.ends_with("a") { 2 } else { 1 });
    assert_eq!(look(&watch, 4, a_changed), ["1: {0, 2}"]);
    assert!(look(&watch, 6, a_changed).is_empty(), "once");
}

#[test]
fn the_next_run_is_told_of_what_changed_while_none_lived() {
    let watch = TemplateWatch::default();
    watch.record(&run(1, 1), 0, sources(&[("web/a", 1)]));
    watch.follow(&run(1, 1));
    watch.pause(&run(1, 1));
    assert!(look(&watch, 0, |_| mark(2)).is_empty());
    watch.follow(&run(1, 2));
    // The end of an earlier run comes late.
    watch.pause(&run(1, 1));
    assert_eq!(look(&watch, 2, |_| mark(2)), ["2: {0}"]);
    watch.forget(AllocId::from_u128(1));
    assert!(!watch.knows(&run(1, 2), 0));
}

#[test]
fn a_file_that_is_away_changes_nothing_and_is_mentioned_three_times() {
    let watch = TemplateWatch::default();
    watch.record(&run(1, 1), 0, sources(&[("web/a", 1)]));
    watch.follow(&run(1, 1));
    let mut mentioned = Vec::new();
    for seconds in (0..20_000).step_by(2) {
        for text in look(&watch, seconds, |_| None) {
            assert!(text.contains("file web/a is away since"), "{text}");
            mentioned.push(seconds);
        }
    }
    assert_eq!(mentioned, [60, 600, 3600]);
    assert!(look(&watch, 20_000, |_| mark(1)).is_empty(), "it is back");
    assert_eq!(look(&watch, 20_002, |_| mark(2)), ["1: {0}"]);
}

#[test]
fn a_look_is_bounded_and_the_next_one_goes_on_behind_it() {
    let watch = TemplateWatch::default();
    let paths: Vec<String> = (0..FILES_MAX).map(|file| format!("web/{file}")).collect();
    let files: Vec<(&str, u64)> = paths.iter().map(|path| (path.as_str(), 1)).collect();
    let tasks = LOOK_FILES_MAX / FILES_MAX + 1;
    for alloc in 1..=tasks {
        let run = run(alloc as u128, 1);
        watch.record(&run, 0, sources(&files));
        watch.follow(&run);
    }
    let (first, end) = watch.next_look(None);
    assert_eq!(first.len(), LOOK_FILES_MAX);
    let (rest, end) = watch.next_look(end);
    assert_eq!((rest.len(), end), (FILES_MAX, None));
}

#[test]
fn a_template_of_many_files_is_followed_in_part() {
    let mut sources = Sources::default();
    for file in 0..2 * FILES_MAX {
        sources.add(Path::new(&format!("web/{file}")), mark(1));
    }
    assert_eq!(sources.files.len(), FILES_MAX);
}
