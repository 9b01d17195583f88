//! Root keys.

use protocol_api::keyring::RootKeyMeta;

use super::columns::Columns;
use crate::find::{Length, shown};
use crate::session::Clock;

/// Root keys, the oldest first.
pub(crate) fn list(keys: &[RootKeyMeta], clock: &Clock, length: Length) -> String {
    if keys.is_empty() {
        return "No root keys found".to_owned();
    }
    let mut table = Columns::new(&["Key", "State", "Create Time", "Publish Time"]);
    for key in keys {
        let publish_time = match key.publish_time.is_zero() {
            true => "<none>".to_owned(),
            false => clock.date(key.publish_time),
        };
        table.row([
            shown(&key.key_id, length),
            key.state.clone(),
            clock.date(key.create_time),
            publish_time,
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use protocol_model::UnixNanos;

    use super::*;

    #[test]
    fn root_keys_are_listed_with_their_states_and_times() {
        let clock = Clock {
            now: UnixNanos(0),
            zone: TimeZone::UTC,
        };
        let key = |id: &str, state: &str, publish_time| RootKeyMeta {
            key_id: id.to_owned(),
            state: state.to_owned(),
            create_time: UnixNanos(1_700_000_000_000_000_000),
            publish_time: UnixNanos(publish_time),
            ..RootKeyMeta::default()
        };
        let keys = [
            key("f19f6029-dda9-4ba1-9d68-c3a5a28ac1f0", "active", 0),
            key(
                "a2b3c4d5-dda9-4ba1-9d68-c3a5a28ac1f0",
                "prepublished",
                1_700_003_600_000_000_000,
            ),
        ];
        let expected = "\
Key       State         Create Time           Publish Time
f19f6029  active        2023-11-14T22:13:20Z  <none>
a2b3c4d5  prepublished  2023-11-14T22:13:20Z  2023-11-14T23:13:20Z";
        let text = list(&keys, &clock, Length::Short);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines.join("\n"), expected);
    }
}
