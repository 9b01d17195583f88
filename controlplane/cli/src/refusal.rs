//! What to do about a server's refusal. The words of refusals are those of Nomad's API, which its
//! clients compare; the command line adds what its user can do.

/// The status, the beginning of the words, and what to do.
const HINTS: &[(u16, &str, &str)] = &[
    (
        403,
        "Permission denied",
        "a token is given with -token or DROVER_TOKEN; `drover acl whoami` shows the caller and its \
         policies, `drover acl bootstrap` makes the first token",
    ),
    (
        500,
        "No cluster leader",
        "a majority of the servers has to run and reach each other; `drover server members` shows \
         who answers, -address asks another server",
    ),
    (
        503,
        "the keyring is not available on this server",
        "another server may have the key: -address asks it; where none has it, copy the KEK's file \
         into the keyring directory of one server (docs/keyring.md)",
    ),
    (
        400,
        "root key in use, cannot delete",
        "-force removes it: tokens that it signed are refused, and tasks get new ones",
    ),
    (
        400,
        "active root key cannot be deleted - call rotate first",
        "`drover operator root keyring rotate -now` makes another key active",
    ),
    (
        400,
        "ACL bootstrap already done (reset index: ",
        "to replace a lost management token, write the reset index into the file \
         acl-bootstrap-reset in the data directory of the server that is asked, then try again",
    ),
    (
        400,
        "invalid path ",
        "a variable's path has 1 to 128 letters, digits and -_~/",
    ),
    (
        400,
        "variables of namespace ",
        "`drover var purge` frees bytes; `drover namespace apply` with a larger \
         variables_bytes_max raises the limit",
    ),
    (
        400,
        "cannot find policy ",
        "`drover acl policy list` shows the policies; those of a role have to exist",
    ),
];

/// A server's words on its HTTPS port to a client of plain HTTP.
const HTTPS_PORT: &str = "HTTP request to an HTTPS server";

/// What to do about a refusal, where that is known.
pub(crate) fn hint(code: u16, message: &str) -> Option<&'static str> {
    if code == 400 && message.contains(HTTPS_PORT) {
        return Some("write the address with https://, and give -ca-cert");
    }
    let fits = |row: &&(u16, &str, &str)| row.0 == code && message.starts_with(row.1);
    HINTS.iter().find(fits).map(|row| row.2)
}
