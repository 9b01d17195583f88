//! What the way between nodes and servers is like, and what becomes of each datagram on it: decided
//! here from a seed and the datagram's number, carried out by the socket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use crate::draws::Draws;

/// Numbers that one fate takes.
const DRAWS_OF_A_FATE: u64 = 2;
/// What makes the way to nodes another one than the way to servers, with the same seed.
const OTHER_WAY: u64 = 0x7761_7920_6261_636b;

/// What the way is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weather {
    /// Of a hundred datagrams so many are lost, each by itself, in both directions.
    pub loss_percent: u32,
    /// Each that is not lost takes up to this much longer, in both directions. Each by itself: they
    /// overtake each other.
    pub jitter: Duration,
    /// Each to a node takes this much longer: one round trip does.
    pub delay: Duration,
}

/// Where a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a node.
    ToServer,
    /// To a node.
    ToNode,
}

/// What becomes of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It never arrives.
    Lost,
    /// It arrives.
    Arrives {
        /// So much later than on a calm day.
        late: Duration,
    },
}

impl Weather {
    /// Whether it does nothing to any datagram.
    pub fn is_calm(self) -> bool {
        self == Self::default()
    }

    /// What becomes of datagram `number` of those that go in this direction.
    pub fn fate(self, direction: Direction, number: u64, seed: u64) -> Fate {
        let Self {
            loss_percent,
            jitter,
            delay,
        } = self;
        let (seed, delay) = match direction {
            Direction::ToServer => (seed, Duration::ZERO),
            Direction::ToNode => (seed ^ OTHER_WAY, delay),
        };
        let position = number.wrapping_mul(DRAWS_OF_A_FATE);
        let mut draws = Draws::from_position(seed, position);
        if draws.below(100) < u64::from(loss_percent) {
            return Fate::Lost;
        }
        let micros_max = u64::try_from(jitter.as_micros()).unwrap_or(u64::MAX - 1);
        let jitter = Duration::from_micros(draws.below(micros_max.saturating_add(1)));
        Fate::Arrives {
            late: delay + jitter,
        }
    }
}

/// The weather over all nodes. It may change at any time.
#[derive(Debug)]
pub struct Sky {
    seed: u64,
    weather: Mutex<Weather>,
    to_server: AtomicU64,
    to_node: AtomicU64,
    lost: AtomicU64,
}

/// How many datagrams met bad weather.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Met {
    /// Those that went to servers, lost or not.
    pub to_server: u64,
    /// Those that went to nodes, lost or not.
    pub to_node: u64,
    /// Those of both that were lost.
    pub lost: u64,
}

impl Sky {
    /// A calm one; whatever chance decides later comes from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            weather: Mutex::default(),
            to_server: AtomicU64::new(0),
            to_node: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Changes the weather; what is on its way keeps the fate that it has.
    pub fn change(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.weather.lock());
    }

    /// What the weather is like now.
    pub fn weather(&self) -> Weather {
        *self.weather.lock()
    }

    /// What becomes of the next datagram in this direction, in the weather there is.
    pub(super) fn next_fate(&self, weather: Weather, direction: Direction) -> Fate {
        let numbers = match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToNode => &self.to_node,
        };
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let fate = weather.fate(direction, number, self.seed);
        if fate == Fate::Lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        fate
    }

    /// How many datagrams met it.
    pub fn met(&self) -> Met {
        Met {
            to_server: self.to_server.load(Ordering::Relaxed),
            to_node: self.to_node.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Weather = Weather {
        loss_percent: 30,
        jitter: Duration::from_millis(300),
        delay: Duration::ZERO,
    };

    fn fates(weather: Weather, direction: Direction, seed: u64) -> Vec<Fate> {
        (0..10_000)
            .map(|number| weather.fate(direction, number, seed))
            .collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_weather_and_another_one_or_the_way_back_does_not() {
        let fates_of = |direction, seed| fates(BAD, direction, seed);
        let first = fates_of(Direction::ToServer, 7);
        assert_eq!(first, fates_of(Direction::ToServer, 7));
        assert_ne!(first, fates_of(Direction::ToServer, 8));
        assert_ne!(first, fates_of(Direction::ToNode, 7));
    }

    #[test]
    fn as_many_are_lost_as_is_said_and_the_others_are_late_by_anything_up_to_the_jitter() {
        for direction in [Direction::ToServer, Direction::ToNode] {
            let fates = fates(BAD, direction, 7);
            let late: Vec<Duration> = fates
                .iter()
                .filter_map(|fate| match fate {
                    Fate::Lost => None,
                    Fate::Arrives { late } => Some(*late),
                })
                .collect();
            assert!((6_800..7_200).contains(&late.len()), "{}", late.len());
            assert!(late.iter().all(|late| *late <= BAD.jitter));
            let part = |from: u64, to: u64| {
                let range = Duration::from_millis(from)..Duration::from_millis(to);
                late.iter().filter(|late| range.contains(*late)).count()
            };
            for begin in [0, 100, 200] {
                let third = part(begin, begin + 100);
                assert!(third > late.len() / 4, "{begin}: {third}");
            }
        }
    }

    #[test]
    fn losses_come_one_by_one() {
        let fates = fates(BAD, Direction::ToServer, 7);
        let both = |pair: &[Fate]| pair.iter().all(|fate| *fate == Fate::Lost);
        let pairs = fates.windows(2).filter(|pair| both(pair)).count();
        // 0.3 * 0.3 of all: who was lost says nothing of who is next.
        assert!((800..1_000).contains(&pairs), "{pairs}");
    }

    #[test]
    fn calm_weather_holds_nothing_up_and_a_delay_holds_up_one_way_only() {
        let calm = Weather::default();
        let delay = Duration::from_millis(60);
        let far = Weather { delay, ..calm };
        assert!(calm.is_calm() && !far.is_calm() && !BAD.is_calm());
        for number in 0..1_000 {
            let fate = |weather: Weather, direction| weather.fate(direction, number, 7);
            let at_once = Fate::Arrives {
                late: Duration::ZERO,
            };
            assert_eq!(fate(calm, Direction::ToServer), at_once);
            assert_eq!(fate(calm, Direction::ToNode), at_once);
            assert_eq!(fate(far, Direction::ToServer), at_once);
            assert_eq!(fate(far, Direction::ToNode), Fate::Arrives { late: delay });
        }
    }

    #[test]
    fn a_sky_gives_every_datagram_the_fate_of_its_number_and_counts() {
        let sky = Sky::new(7);
        sky.change(|weather| *weather = BAD);
        let met: Vec<Fate> = (0..10_000)
            .map(|_| sky.next_fate(sky.weather(), Direction::ToNode))
            .collect();
        assert_eq!(met, fates(BAD, Direction::ToNode, 7));
        let lost = met.iter().filter(|fate| **fate == Fate::Lost).count();
        let counted = Met {
            to_server: 0,
            to_node: 10_000,
            lost: u64::try_from(lost).unwrap(),
        };
        assert_eq!(sky.met(), counted);
    }
}
