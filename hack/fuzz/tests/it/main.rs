//! Every decoder is fed with every `cargo test`, briefly; `README.md` says how to do it longer.

mod feeder;
mod mutator;
mod seeds;

use feeder::feed;
use hack_fuzz::{TARGETS, Verdict, wire_message};

/// Words that take a mutated job file past the first line of the parser.
const HCL: &[&[u8]] = &[
    b"job \"j\" {\n",
    b"group \"g\" {\n",
    b"task \"t\" {\n",
    b"config {\n",
    b"}\n",
    b"\n",
    b"${",
    b"%{ if ",
    b"%{ for x in ",
    b"%{ endif }",
    b"%{ endfor }",
    b"<<EOT\n",
    b"\nEOT\n",
    b"variable \"v\" {\n",
    b"locals {\n",
    b"dynamic \"env\" {\n",
    b"for_each = ",
    b"content {\n",
    b"local.a",
    b"var.v",
    b"attr.kernel.name",
    b"each.value",
    b"[for x in ",
    b" : x if ",
    b"...",
    b" => ",
    b"[*]",
    b".*.",
    b"(",
    b")",
    b"?",
    b":",
    b"&&",
    b"!",
    b"-",
    b"/ 0",
    b"% 0",
    b"null",
    b"range(0, 10, 0)",
    b"format(\"%[5]*d\", ",
    b"formatlist(",
    b"regex(\"(\", ",
    b"substr(",
    b"cidrsubnet(\"::/0\", 128, ",
    b"parseint(\"z\", ",
    b"timeadd(timestamp(), ",
    b"slice(",
    b"chunklist([1], ",
    b"element([], ",
    b"setproduct(",
    b"jsondecode(",
    b"csvdecode(",
    b"base64decode(",
    b"formatdate(\"",
    b"pow(0, -1)",
    b"log(0, 0)",
    b"indent(-1, ",
    b"flatten(",
    b"type = list(object({a = optional(string)}))",
    b"\"1h\"",
    b"1e999",
    b"0x",
    b"\"\\u",
];

/// Keys and values of the API.
const JSON: &[&[u8]] = &[
    b"null",
    b"{}",
    b"[]",
    b"-1",
    b"0",
    b"\"\"",
    b"true",
    b"\"Tasks\":",
    b"\"TaskGroups\":",
    b"\"Type\":\"system\"",
    b"\"Type\":\"sysbatch\"",
    b"\"Periodic\":{}",
    b"\"Count\":",
    b"\"Update\":{\"MaxParallel\":0}",
    b"\"ParameterizedJob\":{}",
    b"9223372036854775807",
    b"\"Networks\":[{}]",
    b"\"Services\":[{}]",
    b"\"Templates\":[{}]",
    b"\"Resources\":{}",
    b"\"Lifecycle\":{}",
    b"\"Volumes\":{\"v\":{}}",
    b"1e308",
    b"\"9999999h\"",
    b"[[[[",
    b",",
    b":",
];

/// Objects and elements of nft.
const NFT: &[&[u8]] = &[
    b"{\"nftables\": [",
    b"{\"map\": {\"family\": \"inet\", \"table\": \"drover_1a2b\", \"name\": \"udp4\", \"elem\": [",
    b"{\"set\": {",
    b"{\"chain\": {",
    b"{\"elem\": {\"val\": ",
    b"{\"concat\": [",
    b"{\"prefix\": {\"addr\": ",
    b"{\"range\": [1, 2]}",
    b"\"172.26.64.5\"",
    b"65536",
    b"-1",
    b"null",
    b"]",
    b"}",
    b",",
];

/// Parts of sources.
const SOURCE: &[&[u8]] = &[
    b"git::",
    b"hg::",
    b"://",
    b"//",
    b"..",
    b"@",
    b":",
    b"?ref=",
    b"&archive=",
    b"%2F",
    b"-",
    b"github.com/",
    b"\ndepth=",
];

/// Parts of templates.
const TEMPLATE: &[&[u8]] = &[
    b"{{",
    b"{{- ",
    b" -}}",
    b"}}",
    b"{{end}}",
    b"{{else}}",
    b"{{else if 1}}",
    b"{{range loop 5}}",
    b"{{range $i, $v := ",
    b"{{with ",
    b"{{if ",
    b"{{define \"a\"}}",
    b"{{template \"a\" .}}",
    b"{{block \"b\" .}}",
    b"{{break}}",
    b"{{/*",
    b"*/}}",
    b"$x := ",
    b" | ",
    b"(",
    b")",
    b".a.b",
    b"`",
    b"\"",
    b"'",
    b"printf \"%*d\" ",
    b"executeTemplate \"a\" ",
    b"parseYAML `",
    b"sprig_list ",
    b"scratch.Set ",
    b"9223372036854775807",
    b"-1",
    b"nil",
];

/// Parts of policies.
const POLICY: &[&[u8]] = &[
    b"namespace \"dev\" {\n",
    b"namespace = [{",
    b"variables { path \"a/*\" {",
    b"node_pool \"*\" {",
    b"host_volume \"*\" {",
    b"agent { policy = \"deny\" }",
    b"operator { ",
    b"policy = \"write\"",
    b"capabilities = [\"read-job\", ",
    b"\"deny\"",
    b"}\n",
    b"]",
    b"\n",
    b",",
    b"=",
    b":",
    b"*",
    b"/*",
    b"*/",
    b"# ",
    b"\\u0000",
    b"\\ud83d\\ude00",
    b"\xef\xbb\xbf",
    b"null",
    b"{{{{{{{{{{{{{{{{{{",
];

/// Headers and payloads of tokens.
const TOKEN: &[&[u8]] = &[
    b".",
    b"=",
    b"eyJhbGciOiJub25lIn0",
    b"eyJhbGciOiJIUzI1NiJ9",
    b"eyJhbGciOiJSUzI1NiIsImFsZyI6Im5vbmUifQ",
    b"e30",
    b"W10",
];

/// Parts of addresses in JSON.
const URL: &[&[u8]] = &[
    b"\"http://",
    b"https://",
    b"@",
    b"#",
    b"\\u0000",
    b"[::1]",
    b"169.254.169.254",
    b":0",
    b"null",
    b"\"jwks_uri\":",
];

/// Parts of heads.
const HEAD: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\r",
    b"\n",
    b" ",
    b"\t",
    b"\0",
    b":",
    b"GET / HTTP/1.1\r\n",
    b"POST /v1/jobs HTTP/1.0\r\n",
    b"Content-Length: 4\r\n",
    b"Content-Length: 0\r\n",
    b"content-length:\t4 \r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Connection: content-length\r\n",
    b"Upgrade: h2c\r\n",
    b"Host: x\r\n",
    b" folded\r\n",
    b"0\r\n\r\n",
    b"http://other",
    b"/../",
    b"%2e%2e",
    b"\xff",
];

macro_rules! targets {
    ($($name:ident: $target:ident, $seeds:expr, $words:expr;)*) => {
        $(#[test]
        fn $name() {
            feed(stringify!($target), &$seeds, $words);
        })*

        #[test]
        fn every_target_is_fed() {
            let fed = [$(stringify!($target)),*];
            let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            let mut fed = fed.to_vec();
            fed.sort_unstable();
            assert_eq!(fed, names);
        }
    };
}

targets! {
    no_text_upsets_the_reader_of_policies: acl_policy, seeds::acl_policies(), POLICY;
    no_text_upsets_the_parser_of_sources: artifact_source, seeds::artifact_sources(), SOURCE;
    no_stream_upsets_the_reader_of_tar: artifact_tar, seeds::artifact_tars(), &[b"../", b"ustar"];
    no_file_upsets_the_reader_of_zip: artifact_zip, seeds::artifact_zips(), &[b"../", b"PK"];
    no_bytes_upset_the_frame_codec: frame, seeds::frames(), &[];
    no_bytes_upset_the_messages: wire_message, seeds::messages(), &[];
    no_bytes_upset_the_log: log_entry, seeds::entries(), JSON;
    no_bytes_upset_outcomes: log_outcome, seeds::outcomes(), JSON;
    no_segment_upsets_the_log: log_segment, seeds::segments(), &[];
    no_history_upsets_the_state: log_history, seeds::histories(), JSON;
    no_bytes_upset_checkpoints: checkpoint, seeds::checkpoints(), &[];
    no_records_upset_checkpoints: checkpoint_records, seeds::checkpoint_records(), JSON;
    no_text_upsets_the_job_parser: job_file, seeds::job_files(), HCL;
    no_json_upsets_the_job_model: job_document, seeds::job_documents(), JSON;
    no_request_of_a_task_is_read_in_two_ways: task_request, seeds::task_requests(), HEAD;
    no_text_upsets_the_templates: template, seeds::templates(), TEMPLATE;
    no_request_upsets_the_server: http_request, seeds::requests(), JSON;
    no_bytes_upset_the_frames_of_jail_children: jail_frame, seeds::jail_frames(), &[];
    no_packet_upsets_keeper: keeper_packet, seeds::packets(), &[];
    no_plan_upsets_keeper: keeper_plan, seeds::plans(), &[];
    no_record_upsets_the_next_keeper: keeper_record, seeds::records(), &[];
    no_state_upsets_the_next_build: keeper_state, seeds::states(), &[];
    no_file_upsets_the_stream_reader: keeper_stream, seeds::streams(), &[];
    no_text_upsets_the_reader_of_node_metadata: node_metadata, seeds::node_metadata(), &[];
    no_text_upsets_the_reader_of_keks: kek_file, seeds::kek_files(), &[];
    no_file_upsets_the_holder_of_identities: kept_identities, seeds::kept_identities(), JSON;
    no_file_upsets_the_reader_of_public_keys: public_keys, seeds::public_keys(), JSON;
    no_bytes_upset_sealed_values: sealed_value, seeds::sealed_values(), &[];
    no_text_upsets_the_parser_of_tokens: login_token, seeds::login_tokens(), TOKEN;
    no_document_upsets_the_reader_of_key_sets: key_set, seeds::key_sets(), JSON;
    no_document_upsets_the_reader_of_discovery: discovery_document, seeds::discoveries(), URL;
    no_answer_upsets_the_exchange_of_codes: token_answer, seeds::token_answers(), JSON;
    no_bytes_upset_the_state_of_a_login: pending_login, seeds::pending_logins(), JSON;
    no_record_upsets_the_journal: journal, seeds::journals(), JSON;
    no_file_upsets_the_journal: journal_file, seeds::journal_files(), &[];
    no_datagram_upsets_netlink: netlink_answer, seeds::netlink_answers(), &[];
    no_text_upsets_the_reader_of_nft: nft_description, seeds::nft_descriptions(), NFT;
}

#[test]
fn every_kind_of_message_is_known_to_its_target() {
    for (kind, name) in protocol_wire::kind::KINDS {
        let frozen = seeds::messages()
            .into_iter()
            .find(|bytes| bytes[0] == *kind);
        let frozen = frozen.unwrap_or_else(|| panic!("{name} has no frozen bytes"));
        assert_eq!(wire_message(&frozen), Verdict::Understood, "{name}");
    }
}

#[test]
fn the_frozen_history_is_one_that_a_cluster_could_have() {
    let refusals = seeds::refusals();
    assert!(refusals.is_empty(), "{refusals:?}");
}

#[test]
fn every_target_has_its_wrapper_and_is_called_by_it() {
    for (name, _) in TARGETS {
        let wrapper = format!("hack/fuzz/libfuzzer/fuzz_targets/{name}.rs");
        let text = std::fs::read_to_string(seeds::in_repository(&wrapper))
            .unwrap_or_else(|error| panic!("{wrapper}: {error}"));
        assert!(
            text.contains(&format!("hack_fuzz::{name}(data)")),
            "{wrapper}"
        );
        let manifest = seeds::in_repository("hack/fuzz/libfuzzer/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("the manifest");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
