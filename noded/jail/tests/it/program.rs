//! The program without noded: its words for people, and its end.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use noded_jail::frame::{Parsed, decode, encode, parse};
use noded_jail::{Render, Rendering, Report};
use noded_template::{Known, MissingKey};

const LIMIT: usize = 1024 * 1024;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noded-jail"));
    command
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn request(text: &str) -> Vec<u8> {
    let render = Render {
        text: text.to_owned(),
        left_delimiter: String::new(),
        right_delimiter: String::new(),
        missing_key: MissingKey::Zero,
        known: Known::default(),
    };
    encode(&render, LIMIT).unwrap()
}

fn output_of(verb: &[&str], input: &[u8]) -> Output {
    let mut child = program().args(verb).spawn().unwrap();
    // A hang-up would end it before it answers.
    let mut stdin = child.stdin.take().unwrap();
    let _refused_early = stdin.write_all(input);
    let mut stdout = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut stdout)
        .unwrap();
    drop(stdin);
    let mut output = child.wait_with_output().unwrap();
    output.stdout = stdout;
    output
}

fn report(output: &Output) -> Report<Rendering> {
    let Parsed::Whole { content, .. } = parse(&output.stdout, LIMIT).unwrap() else {
        panic!("no frame: {output:?}");
    };
    decode(content).unwrap()
}

#[test]
fn a_template_is_rendered_without_the_environment_of_the_program() {
    let output = output_of(
        &["render"],
        &request("{{ \"x\" | toUpper }}{{ env \"PATH\" }}"),
    );
    assert!(output.status.success(), "{output:?}");
    let rendered = Rendering::Rendered("X".to_owned());
    assert_eq!(report(&output), Report::Done(rendered));
}

#[test]
fn a_request_of_another_release_is_refused_by_its_version() {
    let mut bytes = request("x");
    bytes[4] = 9;
    let Report::Refused(words) = report(&output_of(&["render"], &bytes)) else {
        panic!("not refused");
    };
    assert!(words.contains("version 9, not 1"), "{words}");
}

#[test]
fn a_request_above_the_limit_is_refused_by_the_limit() {
    let mut child = program().arg("render").spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The length alone is refused.
    stdin.write_all(&u32::MAX.to_le_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let Report::Refused(words) = report(&output) else {
        panic!("not refused");
    };
    assert!(words.contains("the limit is 16777216"), "{words}");
}

#[test]
fn people_are_told_how_it_is_used() {
    for (words, said) in [
        (&[][..], "usage: noded-jail"),
        (&["dance"][..], "unknown verb \"dance\""),
        (&["render", "x"][..], "usage: noded-jail"),
        (&["render"][..], "no request on descriptor 0"),
    ] {
        let output = program().args(words).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(text.contains(said), "{words:?}: {text}");
    }
}

#[test]
fn a_program_whose_noded_hangs_up_ends_within_a_second() {
    let text = "{{ $s := sprig_repeat 4000000 \"a\" }}{{ range loop 100000 }}\
                {{ if eq (sprig_sha1sum $s) \"x\" }}{{ end }}{{ end }}";
    let mut child = program().arg("render").spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&request(text)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it does not work");
    let begun = Instant::now();
    drop(stdin);
    child.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
}
