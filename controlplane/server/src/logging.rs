//! Log lines: which of them are written, by the configuration or by `DROVER_LOG`; the level may
//! change while the server runs.

use protocol_transport::LineLimit;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::config::{LOG_LEVELS, LogConfig};

/// The variable that takes the place of `log_level`.
const VARIABLE: &str = "DROVER_LOG";
/// What libraries say below a warning is for whoever asks for it by name; of the log's, below an
/// error: it warns of a server that is away with every heartbeat, and we say that ourselves, once.
const LIBRARIES: &str = "openraft=error,quinn=warn,rustls=warn";

/// Why log lines cannot be written as was asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A filter would take the word for the name of a module, and show nothing at all.
    #[error("{VARIABLE}: {0:?} is none of trace, debug, info, warn and error, and no MODULE=LEVEL")]
    Word(String),
    /// The filter cannot be read.
    #[error("{VARIABLE}")]
    Filter(#[from] ParseError),
    /// The filter cannot be replaced.
    #[error("the log's filter")]
    Reload(#[from] reload::Error),
}

/// The filter of log lines, which may be changed while the server runs.
#[derive(Debug)]
pub struct Logging {
    variable: Option<String>,
    handle: reload::Handle<EnvFilter, Registry>,
}

impl Logging {
    /// Writes log lines to standard error from now on. Once per process.
    ///
    /// # Errors
    /// When `DROVER_LOG` makes no sense.
    pub fn start(LogConfig { level, json }: LogConfig) -> Result<Self, LogError> {
        let variable = std::env::var(VARIABLE).ok();
        let filter = EnvFilter::try_new(directives(level, variable.as_deref())?)?;
        let (filter, handle) = reload::Layer::new(filter);
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let registry = tracing_subscriber::registry().with(filter);
        let registry = registry.with(LibraryLines::default());
        if json {
            registry.with(lines.json()).init();
        } else {
            let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
            registry.with(lines.with_ansi(colour)).init();
        }
        Ok(Self { variable, handle })
    }

    /// Another level from now on; what `DROVER_LOG` says goes on overriding it.
    ///
    /// # Errors
    /// When the filter cannot be replaced: then it is as before.
    pub fn set_level(&self, level: Level) -> Result<LevelSet, LogError> {
        let variable = self.variable.as_deref();
        let filter = EnvFilter::try_new(directives(level, variable)?)?;
        self.handle.reload(filter)?;
        Ok(LevelSet::with(variable))
    }
}

/// Bounds the lines of libraries: strangers cause some of them with every packet (a PING ack that
/// was never asked for, an Initial with a bad token). Below `info` somebody asked for all of them.
#[derive(Debug, Default)]
struct LibraryLines(LineLimit);

impl<S: Subscriber> Layer<S> for LibraryLines {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        let is_ours = ["controlplane", "protocol_", "audit"]
            .iter()
            .any(|own| target.starts_with(own));
        if is_ours || level > Level::INFO || self.0.admit().is_some() {
            return true;
        }
        metrics::counter!("drover_library_lines_left_out").increment(1);
        false
    }
}

/// Whether the configured level is what counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelSet {
    /// It does, but for modules that `DROVER_LOG` may name.
    Counts,
    /// `DROVER_LOG` has a level for everything.
    Overridden,
}

impl LevelSet {
    fn with(variable: Option<&str>) -> Self {
        let mut words = variable.unwrap_or_default().split(',').map(str::trim);
        if words.any(|word| !word.is_empty() && !word.contains('=')) {
            Self::Overridden
        } else {
            Self::Counts
        }
    }
}

/// The filter's text. A variable with a level for everything is all of it; with levels of modules
/// only, those are added to what is configured. Empty is as good as not set.
fn directives(level: Level, variable: Option<&str>) -> Result<String, LogError> {
    let configured = format!("{level},{LIBRARIES}");
    let given = variable.map(str::trim).filter(|text| !text.is_empty());
    let Some(given) = given else {
        return Ok(configured);
    };
    let is_level = |word: &str| {
        let mut levels = LOG_LEVELS.iter();
        word.eq_ignore_ascii_case("off") || levels.any(|it| it.as_str().eq_ignore_ascii_case(word))
    };
    let mut for_all = false;
    for directive in given.split(',').map(str::trim) {
        let level = directive.rsplit_once('=').map(|(_, level)| level);
        if !is_level(level.unwrap_or(directive)) {
            return Err(LogError::Word(directive.to_owned()));
        }
        for_all |= level.is_none();
    }
    Ok(if for_all {
        given.to_owned()
    } else {
        format!("{configured},{given}")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn filter(variable: &str) -> Result<String, String> {
        let text = directives(Level::INFO, Some(variable)).map_err(|error| error.to_string())?;
        let filter = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
        Ok(filter.to_string())
    }

    #[test]
    fn a_word_that_is_no_level_is_refused_and_not_taken_for_a_module() {
        for wrong in ["warning", "debug,openraft", "openraft=loud", "info,"] {
            let error = filter(wrong).expect_err(wrong);
            assert!(error.contains("DROVER_LOG"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_level_is_all_of_the_filter_in_either_case() {
        assert_eq!(filter("WARN").as_deref(), Ok("warn"));
        assert_eq!(filter("off").as_deref(), Ok("off"));
    }

    #[test]
    fn a_modules_level_is_added_to_what_is_configured() {
        let text = filter("openraft=debug").expect("a filter");
        let mut parts: Vec<&str> = text.split(',').collect();
        parts.sort_unstable();
        assert_eq!(
            parts,
            ["info", "openraft=debug", "quinn=warn", "rustls=warn"]
        );
    }

    #[test]
    fn a_level_that_the_variable_overrides_is_told_from_one_that_counts() {
        for variable in [None, Some(""), Some(" "), Some("openraft=debug,quinn=info")] {
            assert_eq!(LevelSet::with(variable), LevelSet::Counts, "{variable:?}");
        }
        for variable in ["warn", "openraft=debug, info"] {
            let set = LevelSet::with(Some(variable));
            assert_eq!(set, LevelSet::Overridden, "{variable}");
        }
    }

    /// Counts what is written.
    struct Written(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Written {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn lines_of_libraries_are_bounded_and_ours_are_not() {
        let written = Arc::new(AtomicUsize::new(0));
        let registry = tracing_subscriber::registry().with(LibraryLines::default());
        let subscriber = registry.with(Written(Arc::clone(&written)));
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..100 {
                tracing::warn!(target: "h2::proto::ping_pong", "recv PING ack that we never sent");
            }
            // A second may end between two of them.
            let of_libraries = written.swap(0, Ordering::Relaxed);
            assert!((10..=20).contains(&of_libraries), "{of_libraries}");
            for _ in 0..100 {
                tracing::warn!(target: "controlplane_server::http", "ours");
                tracing::debug!(target: "quinn_proto", "asked for");
            }
            assert_eq!(written.load(Ordering::Relaxed), 200);
        });
    }

    #[test]
    fn an_empty_variable_says_nothing() {
        assert_eq!(
            filter(" "),
            filter("info,openraft=error,quinn=warn,rustls=warn")
        );
    }
}
