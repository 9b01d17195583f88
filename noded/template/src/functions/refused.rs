//! Functions of consul-template and sprig that are refused, with the reason.

const CONSUL: &str = "this cluster has no Consul";
const VAULT: &str = "this cluster has no Vault";
const DRAWS: &str = "a rendering is repeatable: it draws nothing at random";
const KEYS: &str = "a template makes no keys or certificates";
const CHANGES: &str = "a dict does not change in place; use sprig_merge, or scratch.MapSet";
const HOST: &str = "a template does not look at the host";
const ABSENT: &str = "this function of sprig is not supported";
const SPEW: &str = "the dumps of Go's types are not supported; use toJSONPretty";

const REFUSED: &[(&str, &[&str])] = &[
    (
        CONSUL,
        &[
            "caLeaf",
            "caRoots",
            "connect",
            "datacenters",
            "exportedServices",
            "key",
            "keyExists",
            "keyExistsGet",
            "keyOrDefault",
            "ls",
            "node",
            "nodes",
            "partitions",
            "peerings",
            "safeLs",
            "safeTree",
            "service",
            "services",
            "tree",
        ],
    ),
    (VAULT, &["pkiCert", "secret", "secrets"]),
    ("a template runs no program", &["plugin"]),
    (
        "a template writes its destination and no other file",
        &["writeToFile"],
    ),
    (
        "a template sees no network interfaces; use NOMAD_IP_<label> or NOMAD_ADDR_<label>",
        &["sockaddr"],
    ),
    ("services of this cluster have no metadata", &["byMeta"]),
    ("function values are not supported", &["call"]),
    (
        SPEW,
        &["spew_dump", "spew_printf", "spew_sdump", "spew_sprintf"],
    ),
    (
        DRAWS,
        &[
            "sprig_randAlpha",
            "sprig_randAlphaNum",
            "sprig_randAscii",
            "sprig_randBytes",
            "sprig_randInt",
            "sprig_randNumeric",
            "sprig_shuffle",
            "sprig_uuidv4",
        ],
    ),
    (
        KEYS,
        &[
            "sprig_bcrypt",
            "sprig_buildCustomCert",
            "sprig_decryptAES",
            "sprig_derivePassword",
            "sprig_encryptAES",
            "sprig_genCA",
            "sprig_genCAWithKey",
            "sprig_genPrivateKey",
            "sprig_genSelfSignedCert",
            "sprig_genSelfSignedCertWithKey",
            "sprig_genSignedCert",
            "sprig_genSignedCertWithKey",
            "sprig_htpasswd",
        ],
    ),
    (CHANGES, &["sprig_set", "sprig_unset"]),
    (
        HOST,
        &["sprig_env", "sprig_expandenv", "sprig_getHostByName"],
    ),
    (
        ABSENT,
        &[
            "sprig_ago",
            "sprig_durationRound",
            "sprig_mustToDate",
            "sprig_osBase",
            "sprig_osClean",
            "sprig_osDir",
            "sprig_osExt",
            "sprig_osIsAbs",
            "sprig_semver",
            "sprig_semverCompare",
            "sprig_toDate",
            "sprig_typeIs",
            "sprig_typeIsLike",
            "sprig_typeOf",
            "sprig_urlJoin",
            "sprig_urlParse",
        ],
    ),
];

pub(super) fn reason(name: &str) -> Option<&'static str> {
    let found = REFUSED.iter().find(|(_, names)| names.contains(&name));
    found.map(|(reason, _)| *reason)
}
