//! Variable specifications: HCL or JSON, from a file or from stdin.

use std::path::Path;

use clap::ValueEnum;
use protocol_api::variables::Variable;

use crate::failure::Failure;
use crate::job_file::file_or_stdin;

/// The format of a specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum InForm {
    Hcl,
    Json,
}

/// Reads the specification that an argument names: `-` is stdin, `@FILE` a file. `None` where it
/// names none.
///
/// # Errors
/// Where it cannot be read, or its format is not known.
pub(super) fn read(argument: &str, form: Option<InForm>) -> Result<Option<Variable>, Failure> {
    let path = match argument {
        "-" => "-",
        named => match named.strip_prefix('@') {
            Some(path) => path,
            None => return Ok(None),
        },
    };
    let form = form_of(path, form)?;
    let (name, text) = file_or_stdin(Path::new(path))?;
    let what = "a variable specification";
    let json = match form {
        InForm::Hcl => {
            protocol_jobspec::parse_variable(&name, &text).map_err(Failure::VariableFile)?
        }
        InForm::Json => {
            serde_json::from_str(&text).map_err(|source| Failure::Json { what, source })?
        }
    };
    let spec = serde_json::from_value(json).map_err(|source| Failure::Json { what, source })?;
    Ok(Some(spec))
}

/// The format of a file: `-in`, else its extension.
fn form_of(path: &str, form: Option<InForm>) -> Result<InForm, Failure> {
    if let Some(form) = form {
        return Ok(form);
    }
    let extension = Path::new(path).extension().and_then(|it| it.to_str());
    match extension {
        Some("json") => Ok(InForm::Json),
        Some("hcl") => Ok(InForm::Hcl),
        _ => Err(Failure::usage_hint(
            format!("the format of {path:?} is not known"),
            "add -in=hcl or -in=json",
        )),
    }
}
