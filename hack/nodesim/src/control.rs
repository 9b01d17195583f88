//! The commands of the binary: one a line, answered with one JSON object a line.
//!
//! | command | does | answers |
//! |---|---|---|
//! | `stats` | counts | [`Stats`] |
//! | `running` | lists the runs of tasks that go on | `running` |
//! | `mark` | counts time anew | |
//! | `cut A..B` | pulls the cables of nodes A to B, B left out | `ids` |
//! | `heal` | puts all cables back | |
//! | `delay MS` | every packet to a node takes that much longer | |
//! | `weather LOSS MS` | of a hundred packets LOSS are lost, others up to MS late, both ways | |
//! | `lose A..B` | those nodes find their connections broken | |
//! | `restart A..B` | ends their daemons, then starts them again | |
//! | `live SECONDS` | waits until all that are not cut off live | `missing`, [`Stats`] |
//! | `handshakes N AT_ONCE` | bare handshakes | [`Handshakes`] |
//! | `quit` | ends all nodes | |
//!
//! Every answer has `command`, and `error` where it could not be done. `cut`, `heal`, `lose` and
//! `restart` count time anew.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::fleet::{Fleet, Running};
use crate::handshakes::Handshakes;
use crate::stats::Stats;

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Count.
    Stats,
    /// List the runs of tasks.
    Running,
    /// Count time anew.
    Mark,
    /// Pull cables.
    Cut(Range<usize>),
    /// Put them back.
    Heal,
    /// Make packets late.
    Delay(Duration),
    /// Lose packets and let others overtake each other.
    Weather {
        /// How many in a hundred.
        loss_percent: u32,
        /// By how much at most.
        jitter: Duration,
    },
    /// Break connections.
    Lose(Range<usize>),
    /// Restart daemons.
    Restart(Range<usize>),
    /// Wait until all live.
    Live(Duration),
    /// Make bare handshakes.
    Handshakes {
        /// How many.
        count: u32,
        /// How many at a time.
        at_once: u32,
    },
    /// End all nodes.
    Quit,
}

/// Why a line is no command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotACommand(String);

impl std::fmt::Display for NotACommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is no command", self.0)
    }
}

impl FromStr for Command {
    type Err = NotACommand;

    fn from_str(line: &str) -> Result<Self, NotACommand> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let command =
            match words.as_slice() {
                ["stats"] => Some(Self::Stats),
                ["running"] => Some(Self::Running),
                ["mark"] => Some(Self::Mark),
                ["cut", which] => range(which).map(Self::Cut),
                ["heal"] => Some(Self::Heal),
                ["delay", millis] => number(millis)
                    .map(|millis| Self::Delay(Duration::from_millis(u64::from(millis)))),
                ["weather", loss, millis] => number(loss)
                    .filter(|loss| *loss <= 100)
                    .zip(number(millis))
                    .map(|(loss_percent, millis)| Self::Weather {
                        loss_percent,
                        jitter: Duration::from_millis(u64::from(millis)),
                    }),
                ["lose", which] => range(which).map(Self::Lose),
                ["restart", which] => range(which).map(Self::Restart),
                ["live", seconds] => number(seconds)
                    .map(|seconds| Self::Live(Duration::from_secs(u64::from(seconds)))),
                ["handshakes", count, at_once] => number(count)
                    .zip(number(at_once))
                    .map(|(count, at_once)| Self::Handshakes { count, at_once }),
                ["quit"] => Some(Self::Quit),
                _ => None,
            };
        command.ok_or_else(|| NotACommand(line.to_owned()))
    }
}

fn range(text: &str) -> Option<Range<usize>> {
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// What is answered; what does not belong to a command is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Answer {
    /// The line that is answered.
    pub command: String,
    /// Why it could not be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The nodes that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// Nodes that did not get there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<usize>,
    /// Runs of tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Vec<Running>>,
    /// Bare handshakes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// Everything that can be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
}

/// Carries a command out.
pub async fn carry_out(fleet: &mut Fleet, command: &Command) -> Answer {
    let mut answer = Answer::default();
    match command {
        Command::Stats => answer.stats = Some(fleet.stats()),
        Command::Running => answer.running = Some(fleet.running()),
        Command::Mark => fleet.mark(),
        Command::Cut(which) => answer.ids = Some(fleet.cut(which.clone())),
        Command::Heal => fleet.heal(),
        Command::Delay(delay) => fleet.change_weather(|weather| weather.delay = *delay),
        Command::Weather {
            loss_percent,
            jitter,
        } => fleet.change_weather(|weather| {
            (weather.loss_percent, weather.jitter) = (*loss_percent, *jitter);
        }),
        Command::Lose(which) => fleet.lose_connections(which.clone()).await,
        Command::Restart(which) => fleet.restart(which.clone()).await,
        Command::Live(patience) => {
            answer.missing = Some(fleet.wait_live(*patience).await);
            answer.stats = Some(fleet.stats());
        }
        Command::Handshakes { count, at_once } => match fleet.handshakes(*count, *at_once).await {
            Ok(handshakes) => answer.handshakes = Some(handshakes),
            Err(error) => answer.error = Some(format!("{error:#}")),
        },
        Command::Quit => {}
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read() {
        let read = |line: &str| line.parse::<Command>();
        assert_eq!(read("stats"), Ok(Command::Stats));
        assert_eq!(read(" cut 0..50 "), Ok(Command::Cut(0..50)));
        assert_eq!(read("live 30"), Ok(Command::Live(Duration::from_secs(30))));
        let handshakes = Command::Handshakes {
            count: 9,
            at_once: 3,
        };
        assert_eq!(read("handshakes 9 3"), Ok(handshakes));
        let weather = Command::Weather {
            loss_percent: 30,
            jitter: Duration::from_millis(300),
        };
        assert_eq!(read("weather 30 300"), Ok(weather));
        for wrong in [
            "",
            "cut",
            "cut 5",
            "cut a..b",
            "live",
            "stats now",
            "live -1",
            "weather 30",
            "weather 101 0",
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.to_string().contains("is no command"), "{error}");
        }
    }

    #[test]
    fn an_answer_has_nothing_that_was_not_asked() {
        let answer = Answer {
            command: "heal".to_owned(),
            ..Answer::default()
        };
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(text, r#"{"command":"heal"}"#);
    }
}
