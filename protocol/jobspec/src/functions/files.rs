//! Files and paths. Contents come from the caller's [`Inputs`](crate::Inputs); the functions that
//! only compute paths do so on text.

use super::arguments::text;
use super::encoding::base64;
use super::{Arity, Context, Failure, Function, function};
use crate::inputs::{Directories, FileError};
use crate::value::Value;

pub(super) static FUNCTIONS: &[Function] = &[
    function("abspath", Arity::exactly(1), |context, a| {
        let path = text(a, 0)?;
        let directories = directories(context)?;
        let whole = if path.starts_with('/') {
            path
        } else {
            format!("{}/{path}", directories.working)
        };
        Ok(Value::String(clean(&whole)))
    }),
    function("basename", Arity::exactly(1), |_, a| {
        Ok(Value::String(basename(&text(a, 0)?)))
    }),
    function("dirname", Arity::exactly(1), |_, a| {
        Ok(Value::String(dirname(&text(a, 0)?)))
    }),
    function("file", Arity::exactly(1), |context, a| {
        let bytes = read(context, &text(a, 0)?)?;
        String::from_utf8(bytes).map(Value::String).map_err(|_| {
            Failure::argument(0, "the file is not UTF-8 text").hint("filebase64() reads any file")
        })
    }),
    function("filebase64", Arity::exactly(1), |context, a| {
        let bytes = read(context, &text(a, 0)?)?;
        context.spend(bytes.len())?;
        Ok(Value::String(base64(&bytes)))
    }),
    function("fileexists", Arity::exactly(1), |context, a| match context
        .machine
        .inputs
        .file(&text(a, 0)?)
    {
        Ok(_) => Ok(Value::Bool(true)),
        Err(FileError::NotFound) => Ok(Value::Bool(false)),
        Err(error) => Err(refused(&error)),
    }),
    function("fileset", Arity::exactly(2), |context, a| {
        let found = context
            .machine
            .inputs
            .matching_files(&text(a, 0)?, &text(a, 1)?);
        let paths = found.map_err(|error| refused(&error))?;
        Ok(Value::set(paths.into_iter().map(Value::String).collect()))
    }),
    function("pathexpand", Arity::exactly(1), |context, a| {
        let path = text(a, 0)?;
        if path != "~" && !path.starts_with("~/") {
            return Ok(Value::String(path));
        }
        Ok(Value::String(format!(
            "{}{}",
            directories(context)?.home,
            &path[1..]
        )))
    }),
];

fn read(context: &mut Context<'_, '_>, path: &str) -> Result<Vec<u8>, Failure> {
    let bytes = context
        .machine
        .inputs
        .file(path)
        .map_err(|error| refused(&error))?;
    context.spend(bytes.len())?;
    Ok(bytes)
}

fn refused(error: &FileError) -> Failure {
    let failure = Failure::argument(0, error.to_string());
    match error {
        FileError::Disabled => {
            failure.hint("this job file is parsed by a server; parse it with the command line")
        }
        FileError::NotFound | FileError::Refused(_) => failure,
    }
}

fn directories(context: &Context<'_, '_>) -> Result<Directories, Failure> {
    context
        .machine
        .inputs
        .directories()
        .ok_or_else(|| refused(&FileError::Disabled))
}

/// The shortest equal path: no `.`, no `//`, and `..` resolved on the text alone.
fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(last) if *last != ".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(".."),
            },
            name => parts.push(name),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

fn basename(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return if path.is_empty() { "." } else { "/" }.to_owned();
    }
    trimmed.rsplit('/').next().unwrap_or(trimmed).to_owned()
}

fn dirname(path: &str) -> String {
    match path.rfind('/') {
        Some(slash) => clean(&path[..=slash]),
        None => ".".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_as_go_does() {
        assert_eq!(
            (basename("/a/b/"), dirname("/a/b/")),
            ("b".to_owned(), "/a/b".to_owned())
        );
        assert_eq!(
            (basename(""), dirname("b")),
            (".".to_owned(), ".".to_owned())
        );
        assert_eq!(clean("/a/./b//../../../c"), "/c");
    }
}
