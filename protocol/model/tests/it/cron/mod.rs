//! Launch times: expressions, zones, clock changes, limits.

use jiff::Timestamp;
use proptest::prelude::*;
use protocol_model::cron::{EXPRESSION_BYTES_MAX, Schedule, ScheduleError};
use protocol_model::{PeriodicConfig, UnixNanos};

fn at(text: &str) -> UnixNanos {
    let time: Timestamp = text.parse().expect("a time");
    UnixNanos(time.as_second() * 1_000_000_000)
}

fn shown(time: UnixNanos) -> String {
    let time = Timestamp::from_second(time.0 / 1_000_000_000).expect("a time");
    time.to_string()
}

fn config(zone: &str, spec: &str) -> PeriodicConfig {
    PeriodicConfig {
        spec: spec.to_owned(),
        time_zone: zone.to_owned(),
        ..PeriodicConfig::default()
    }
}

fn schedule(zone: &str, spec: &str) -> Schedule {
    config(zone, spec).schedule().expect("a schedule")
}

fn launches(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let first = schedule.next(at(after));
    let times = std::iter::successors(first, |time| schedule.next(*time));
    times.take(count).map(shown).collect()
}

const EXPRESSIONS: &str = include_str!("expressions.txt");

#[test]
fn expressions_match_the_times_of_the_table() {
    for line in rows(EXPRESSIONS) {
        let [spec, after, expected] = columns(line);
        let expected: Vec<&str> = expected.split(' ').collect();
        let found = launches(&schedule("", spec), after, expected.len());
        assert_eq!(found, expected, "{line}");
    }
}

/// The lines of a table without its comments.
fn rows(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

fn columns<const N: usize>(line: &str) -> [&str; N] {
    let columns: Vec<&str> = line.split(" | ").collect();
    columns.try_into().unwrap_or_else(|_| panic!("{line}"))
}

const CLOCK_CHANGES: &str = include_str!("clock_changes.txt");

#[test]
fn a_skipped_time_has_no_launch_and_a_repeated_one_two() {
    for line in rows(CLOCK_CHANGES) {
        let [zone, spec, after, expected] = columns(line);
        let found = launches(&schedule(zone, spec), after, 3);
        assert_eq!(found.join(" "), expected, "{line}");
    }
}

#[test]
fn times_that_never_come_end_the_search() {
    for spec in ["0 0 30 2 *", "0 12 1 1 * 2020", "0 12 1 1 * 2099"] {
        let found = schedule("Europe/Berlin", spec).next(at("2026-01-01T00:00:00Z"));
        assert_eq!(found, None, "{spec}");
    }
}

#[test]
fn several_expressions_launch_at_the_times_of_each() {
    let config = PeriodicConfig {
        specs: vec!["0 3 * * *".to_owned(), "0 1 * * *".to_owned()],
        ..PeriodicConfig::default()
    };
    let schedule = config.schedule().expect("a schedule");
    let found = launches(&schedule, "2026-01-01T00:00:00Z", 3);
    let expected = [
        "2026-01-01T01:00:00Z",
        "2026-01-01T03:00:00Z",
        "2026-01-02T01:00:00Z",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_fraction_of_a_second_does_not_repeat_a_launch() {
    let schedule = schedule("", "* * * * * * *");
    let later = UnixNanos(at("2026-01-01T00:00:00Z").0 + 300_000_000);
    assert_eq!(schedule.next(later), Some(at("2026-01-01T00:00:01Z")));
}

#[test]
fn the_newest_launch_is_the_last_one_in_the_span() {
    let cases = [
        (
            "*/10 * * * *",
            "2026-01-01T00:00:00Z",
            "2026-01-01T05:05:00Z",
            Some("2026-01-01T05:00:00Z"),
        ),
        (
            "*/10 * * * *",
            "2026-01-01T00:00:00Z",
            "2026-01-01T05:00:00Z",
            Some("2026-01-01T05:00:00Z"),
        ),
        (
            "*/10 * * * *",
            "2026-01-01T05:00:00Z",
            "2026-01-01T05:00:00Z",
            None,
        ),
        (
            "0 3 * * *",
            "2026-01-01T04:00:00Z",
            "2026-01-02T02:59:59Z",
            None,
        ),
        (
            "* * * * * * *",
            "2026-01-01T00:00:00Z",
            "2026-07-01T00:00:01Z",
            Some("2026-07-01T00:00:01Z"),
        ),
        (
            "0 3 * * *",
            "2026-01-02T00:00:00Z",
            "2026-01-01T00:00:00Z",
            None,
        ),
    ];
    for (spec, after, until, expected) in cases {
        let found = schedule("", spec).newest(at(after), at(until));
        assert_eq!(
            found.map(shown).as_deref(),
            expected,
            "{spec} {after} to {until}"
        );
    }
}

#[test]
fn mistakes_name_the_field_and_its_range() {
    let cases = [
        ("61 * * * *", "minute \"61\"", "0 to 59"),
        ("* 24 * * *", "hour \"24\"", "0 to 23"),
        ("* * 0 * *", "day of month \"0\"", "1 to 31"),
        ("* * * 13 *", "month \"13\"", "1 to 12"),
        ("* * * MON *", "month \"MON\"", "JAN to DEC"),
        ("* * * * 8", "day of week \"8\"", "0 to 7"),
        ("* * * * JAN", "day of week \"JAN\"", "SUN to SAT"),
        ("* * * * * 1960", "year \"1960\"", "1970 to 2099"),
        ("61 * * * * * *", "second \"61\"", "0 to 59"),
        ("1,,2 * * * *", "minute \"1,,2\"", "0 to 59"),
        ("/5 * * * *", "minute \"/5\"", "0 to 59"),
        ("*/0 * * * *", "minute \"*/0\"", "0 to 59"),
        ("30-10 * * * *", "minute \"30-10\"", "0 to 59"),
        ("* * * * +1", "day of week \"+1\"", "0 to 7"),
        ("é * * * *", "minute \"é\"", "0 to 59"),
        ("* * * *", "4 fields", "a sixth is the year"),
        ("* * * * * * * *", "8 fields", "a sixth is the year"),
        ("", "0 fields", "a sixth is the year"),
        ("@every 5m", "no known macro", "@hourly"),
        ("@reboot", "no known macro", "@hourly"),
    ];
    for (spec, message, hint) in cases {
        let mut periodic = config("", spec);
        periodic.specs = vec![spec.to_owned()];
        let error = periodic.schedule().expect_err(spec);
        let ScheduleError::Expression(error) = error else {
            panic!("{spec}: {error}");
        };
        assert!(error.to_string().contains(message), "{spec}: {error}");
        assert!(error.hint().contains(hint), "{spec}: {}", error.hint());
    }
    let long = "1,".repeat(EXPRESSION_BYTES_MAX) + "1 * * * *";
    let error = config("", &long).schedule().expect_err("too long");
    assert!(error.to_string().contains("at most 1024"), "{error}");
    let error = config("Mars/Olympus", "@daily")
        .schedule()
        .expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "time_zone: \"Mars/Olympus\" is no known time zone"
    );
}

const ZONES: [&str; 5] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Asia/Kathmandu",
];

proptest! {
    /// Against a walk over every minute, with the zone's own conversion.
    #[test]
    fn next_equals_a_walk_over_all_minutes(
        zone in 0..ZONES.len(), minute in 0..60_i8, hour in 0..24_i8, day in 0..365_i64,
    ) {
        let zone = ZONES[zone];
        let schedule = schedule(zone, &format!("{minute} {hour} * * *"));
        let start = at("2026-01-01T00:00:00Z").0 / 1_000_000_000 + day * 86_400;
        let tz = jiff::tz::TimeZone::get(zone).expect("a zone");
        let walked = (1..=3 * 1_440).map(|minutes| start + minutes * 60).find(|second| {
            let time = Timestamp::from_second(*second).expect("a time").to_zoned(tz.clone());
            (time.hour(), time.minute()) == (hour, minute)
        });
        let found = schedule.next(UnixNanos(start * 1_000_000_000));
        prop_assert_eq!(found.map(|it| it.0 / 1_000_000_000), walked);
    }

    #[test]
    fn newest_equals_the_last_of_all_next_ones(
        zone in 0..ZONES.len(), step in 1..30_i8, hours in 1..40_i64, day in 0..365_i64,
    ) {
        let schedule = schedule(ZONES[zone], &format!("*/{step} 1-3,22 * * *"));
        let after = UnixNanos(at("2026-01-01T00:00:00Z").0 + day * 86_400_000_000_000);
        let until = UnixNanos(after.0 + hours * 3_600_000_000_000);
        let all = std::iter::successors(schedule.next(after), |time| schedule.next(*time));
        let last = all.take_while(|time| *time <= until).last();
        prop_assert_eq!(schedule.newest(after, until), last);
    }

    #[test]
    fn any_text_is_read_without_a_panic(spec in "[ -~]{0,40}|([0-9LW*/,#?A-Z-]{1,6} ){4,7}") {
        if let Ok(schedule) = config("Europe/Berlin", &spec).schedule() {
            let after = at("2026-01-01T00:00:00Z");
            if let Some(next) = schedule.next(after) {
                prop_assert!(next > after);
            }
        }
    }
}
