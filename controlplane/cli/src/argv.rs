//! Arguments as Nomad's users write them, turned into what the argument parser reads.
//!
//! ```text
//!   run -detach -var a=b x.hcl  ->  job run --detach --var=a=b x.hcl
//! ```
//!
//! - Long flags may have one dash. A lone letter (`-f`, `-n 5`) is a short flag and stays.
//! - A value is tied to its flag, so that it may begin with a dash.
//! - The old one-word commands (`run`, `logs`, `node-status`) become what they are short for.
//! - What follows the target of `alloc exec` is a command of its own and is left alone.

use clap::{Arg, ArgAction, Command};

/// Words that stand for two.
const SHORTCUTS: &[(&str, [&str; 2])] = &[
    ("run", ["job", "run"]),
    ("plan", ["job", "plan"]),
    ("stop", ["job", "stop"]),
    ("validate", ["job", "validate"]),
    ("inspect", ["job", "inspect"]),
    ("logs", ["alloc", "logs"]),
    ("exec", ["alloc", "exec"]),
    ("action", ["job", "action"]),
    ("fs", ["alloc", "fs"]),
    ("alloc-status", ["alloc", "status"]),
    ("node-status", ["node", "status"]),
    ("eval-status", ["eval", "status"]),
    ("server-members", ["server", "members"]),
];

/// Flags that stand for the command `version`.
const VERSION: [&str; 3] = ["-version", "--version", "-v"];

/// `arguments` without the program's name, for the parser of `root`. `root` has to be built.
pub(crate) fn normalise(root: &Command, arguments: Vec<String>) -> Vec<String> {
    let mut normal = Vec::with_capacity(arguments.len() + 1);
    let mut command = root;
    let mut rest = arguments.into_iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            normal.push(word);
            break;
        }
        if normal.is_empty() && VERSION.contains(&word.as_str()) {
            normal.push("version".to_owned());
            break;
        }
        if let Some(flag) = long_flag(&word) {
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let value = match value {
                Some(value) => Some(value),
                None if takes_value(command, name) => rest.next(),
                None => None,
            };
            normal.push(match (value, is_switch(command, name)) {
                // `-detach=true`, as the flags of Go programs can be written.
                (Some(value), true) if value == "true" => format!("--{name}"),
                (Some(value), true) if value == "false" => continue,
                (Some(value), _) => format!("--{name}={value}"),
                (None, _) => format!("--{name}"),
            });
        } else if word.len() == 2 && word.starts_with('-') {
            let takes = short(command, &word).is_some_and(wants_value);
            normal.push(word);
            if takes {
                normal.extend(rest.next());
            }
        } else if let Some(inner) = command.find_subcommand(&word) {
            normal.push(word);
            command = inner;
        } else if let Some(both) = shortcut(root, command, &word) {
            command = both
                .iter()
                .fold(root, |at, name| at.find_subcommand(name).unwrap_or(at));
            normal.extend(both.map(str::to_owned));
        } else if command.get_name() == "exec" && !is_short_with_value(&word) {
            normal.extend(["--".to_owned(), word]);
            break;
        } else {
            normal.push(word);
        }
    }
    normal.extend(rest);
    normal
}

fn shortcut(root: &Command, command: &Command, word: &str) -> Option<[&'static str; 2]> {
    if !std::ptr::eq(root, command) {
        return None;
    }
    let found = SHORTCUTS.iter().find(|(name, _)| *name == word)?;
    Some(found.1)
}

/// The flag behind its dashes, where `word` is a long flag.
fn long_flag(word: &str) -> Option<&str> {
    if let Some(flag) = word.strip_prefix("--") {
        return Some(flag);
    }
    let flag = word.strip_prefix('-')?;
    let name = flag.split('=').next().unwrap_or(flag);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    (name.len() > 1 && begins).then_some(flag)
}

/// Whether `word` is like `-i=false`.
fn is_short_with_value(word: &str) -> bool {
    word.starts_with('-') && word.find('=') == Some(2)
}

fn long<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(name))
}

fn short<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let letter = word.chars().nth(1)?;
    command
        .get_arguments()
        .find(|argument| argument.get_short() == Some(letter))
}

fn takes_value(command: &Command, name: &str) -> bool {
    long(command, name).is_some_and(wants_value)
}

fn is_switch(command: &Command, name: &str) -> bool {
    long(command, name).is_some_and(|argument| matches!(argument.get_action(), ArgAction::SetTrue))
}

/// Whether the value comes as a word of its own.
fn wants_value(argument: &Arg) -> bool {
    let sets = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    sets && !argument.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    fn normal(line: &str) -> String {
        let mut root = Arguments::command();
        root.build();
        let words = line.split_whitespace().map(str::to_owned).collect();
        normalise(&root, words).join(" ")
    }

    #[test]
    fn long_flags_may_have_one_dash() {
        let given = "job run -detach -var a=b -var=c=-d x.hcl";
        assert_eq!(normal(given), "job run --detach --var=a=b --var=c=-d x.hcl");
        assert_eq!(normal("job status --json web"), "job status --json web");
    }

    #[test]
    fn short_flags_stay() {
        let given = "alloc logs -f -n 5 -stderr abc";
        assert_eq!(normal(given), "alloc logs -f -n 5 --stderr abc");
    }

    #[test]
    fn global_flags_stand_anywhere() {
        let given = "-address http://x node status -address=http://y -verbose";
        let expected = "--address=http://x node status --address=http://y --verbose";
        assert_eq!(normal(given), expected);
    }

    #[test]
    fn switches_may_be_spelled_out() {
        assert_eq!(
            normal("job stop -detach=true -yes=false web"),
            "job stop --detach web"
        );
    }

    #[test]
    fn the_command_of_exec_is_left_alone() {
        assert_eq!(
            normal("exec -i=false abc ls"),
            "alloc exec -i=false -- abc ls"
        );
        let given = "alloc exec -task web abc ls -la -task";
        assert_eq!(normal(given), "alloc exec --task=web -- abc ls -la -task");
    }

    #[test]
    fn words_of_old_become_two() {
        assert_eq!(normal("run x.hcl"), "job run x.hcl");
        assert_eq!(normal("node-status -json"), "node status --json");
        assert_eq!(normal("job run run"), "job run run");
    }

    #[test]
    fn the_version_is_asked_for_in_every_way() {
        for line in ["version", "-version", "--version", "-v"] {
            assert_eq!(normal(line), "version");
        }
        assert_eq!(
            normal("job inspect -version 3 web"),
            "job inspect --version=3 web"
        );
    }

    #[test]
    fn two_dashes_end_the_flags() {
        assert_eq!(normal("job run -- -x"), "job run -- -x");
        assert_eq!(normal("job run -"), "job run -");
    }
}
