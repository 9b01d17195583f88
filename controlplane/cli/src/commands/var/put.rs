//! `drover var put`.
//!
//! ```text
//!  var put PATH KEY=VALUE..          a path and items
//!  var put @spec.nv.hcl KEY=VALUE..  a specification, whose items the arguments override
//!  var put -in=json - KEY=VALUE..    the same from stdin
//!  var put PATH @spec.nv.hcl         a specification for another path
//! ```

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use protocol_api::variables::{Variable, VariableRequest, WriteVariable};
use protocol_client::Query;
use protocol_model::SecretText;

use super::form::OutForm;
use super::spec::{self, InForm};
use super::{Writer, conflict, one_namespace, path_of};
use crate::failure::Failure;
use crate::session::Session;

/// The most bytes of one value: what a variable takes.
const VALUE_BYTES_MAX: u64 = 64 * 1024;

#[derive(Args, Debug)]
pub(crate) struct Put {
    /// The path, or a specification: @FILE, or - for stdin
    #[arg(value_name = "PATH|@FILE|-")]
    first: String,
    /// Items: KEY=VALUE, KEY=@FILE, or KEY=- for stdin; first perhaps a specification
    #[arg(value_name = "KEY=VALUE")]
    items: Vec<String>,
    /// Write only if the variable is at this modify index; 0: only if it does not exist
    #[arg(long, value_name = "INDEX", conflicts_with = "force")]
    check_index: Option<u64>,
    /// Write whatever is there
    #[arg(long)]
    force: bool,
    /// The format of a specification: hcl or json; a file's extension tells it, too
    #[arg(long = "in", value_name = "FORMAT")]
    input: Option<InForm>,
    /// The form: hcl, json, none or table; a terminal gets one line, else JSON
    #[arg(long, value_name = "FORM")]
    out: Option<OutForm>,
    /// Tell more
    #[arg(long)]
    verbose: bool,
}

impl Put {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        one_namespace(session)?;
        let (spec, items) = self.specification()?;
        let mut spec = spec;
        let all = spec.items.get_or_insert_default();
        let mut stdin = StdinUse::of(&self);
        for (index, item) in items.iter().enumerate() {
            let (key, value) = pair(index + 1, item, &mut stdin)?;
            all.insert(key, value);
        }
        let is_empty = all.is_empty();
        spec.path = path_of(&spec.path).to_owned();
        if is_empty {
            return Err(Failure::usage_hint(
                format!("the variable {:?} would have no items", spec.path),
                "add at least one KEY=VALUE; `drover var purge` deletes a variable",
            ));
        }
        if spec.path.is_empty() {
            return Err(Failure::usage_hint(
                "the variable has no path",
                "name it first: `drover var put PATH @FILE`, or set `path` in the specification",
            ));
        }
        let check = match (self.force, self.check_index) {
            (true, _) => None,
            // As in Nomad: a specification that was read says what it was made from.
            (false, given) => Some(given.unwrap_or(spec.modify_index)),
        };
        let namespace = match session.namespace_flag() {
            Some(namespace) => namespace.to_owned(),
            None => spec.namespace.clone(),
        };
        let request = VariableRequest {
            namespace,
            path: spec.path.clone(),
            items: spec.items,
            lock: None,
        };
        let client = session.client()?;
        let query = Query::new().with_some("cas", check);
        let write = WriteVariable { path: &spec.path };
        let written = client.call_with(&write, &query, &request).await;
        let refused = |error| conflict(error, &spec.path, check, Writer::Put);
        let written = written.map_err(refused)?;
        self.print(session, &written.value)
    }

    /// The specification, and the arguments that are items.
    fn specification(&self) -> Result<(Variable, &[String]), Failure> {
        if let Some(spec) = spec::read(&self.first, self.input)? {
            return Ok((spec, &self.items));
        }
        let path = self.first.clone();
        if let Some((second, items)) = self.items.split_first()
            && let Some(spec) = spec::read(second, self.input)?
        {
            return Ok((Variable { path, ..spec }, items));
        }
        let spec = Variable {
            path,
            ..Variable::default()
        };
        Ok((spec, &self.items))
    }

    fn print(&self, session: &Session, written: &Variable) -> Result<(), Failure> {
        let form = OutForm::or_default(self.out, OutForm::None);
        if form != OutForm::None && !self.verbose {
            return form.print(session, written);
        }
        let did = match written.create_index == written.modify_index {
            true => "Created",
            false => "Updated",
        };
        let (path, index) = (&written.path, written.modify_index);
        let text = format!("{did} variable {path:?} with modify index {index}");
        if form == OutForm::None {
            return session.out.data(&text);
        }
        session.out.note(&text);
        form.print(session, written)
    }
}

/// Whether stdin was read already: it can be read once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StdinUse {
    Free,
    Used,
}

impl StdinUse {
    fn of(put: &Put) -> Self {
        let second = put.items.first().map(String::as_str);
        match put.first == "-" || second == Some("-") {
            true => Self::Used,
            false => Self::Free,
        }
    }
}

/// An item: a value as it is, of a file, or of stdin. Errors name its number among the items, not
/// its text, which may be a secret.
fn pair(
    number: usize,
    argument: &str,
    stdin: &mut StdinUse,
) -> Result<(String, SecretText), Failure> {
    let form = "items are written KEY=VALUE, KEY=@FILE, or KEY=- for stdin";
    let Some((key, value)) = argument.split_once('=') else {
        return Err(Failure::usage_hint(
            format!("item {number} has no `=`"),
            form,
        ));
    };
    if key.is_empty() {
        return Err(Failure::usage_hint(
            format!("item {number} has no key before its `=`"),
            form,
        ));
    }
    let text = match value {
        "-" if *stdin == StdinUse::Used => {
            return Err(Failure::usage("stdin is named twice: it can be read once"));
        }
        "-" => {
            *stdin = StdinUse::Used;
            read_value(std::io::stdin().lock(), PathBuf::from("stdin"))?
        }
        _ => match value.strip_prefix('@') {
            None => value.replace("\\@", "@"),
            Some(path) => {
                let path = PathBuf::from(path);
                let file = std::fs::File::open(&path).map_err(|source| Failure::ReadFile {
                    path: path.clone(),
                    source,
                })?;
                read_value(file, path)?
            }
        },
    };
    Ok((key.to_owned(), SecretText::new(text)))
}

fn read_value(input: impl std::io::Read, path: PathBuf) -> Result<String, Failure> {
    let mut text = String::new();
    let read = input.take(VALUE_BYTES_MAX + 1).read_to_string(&mut text);
    let shown = path.display().to_string();
    read.map_err(|source| Failure::ReadFile { path, source })?;
    if text.len() as u64 > VALUE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "{shown} is larger than {VALUE_BYTES_MAX} bytes, which is the limit of a variable"
        )));
    }
    Ok(text)
}
