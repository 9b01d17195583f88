//! `csvdecode`: RFC 4180 with a header line; each record becomes a map of strings.

use super::arguments::text;
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::Value;

pub(super) static FUNCTIONS: &[Function] = &[function("csvdecode", Arity::exactly(1), decode)];

fn decode(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let body = text(arguments, 0)?;
    context.spend(body.len().saturating_mul(16))?;
    let mut records = records(&body)
        .map_err(|message| Failure::argument(0, message))?
        .into_iter();
    let Some(header) = records.next() else {
        return Err(Failure::argument(0, "the first line must name the columns"));
    };
    let mut rows = Vec::new();
    for record in records {
        if record.len() != header.len() {
            let message = format!(
                "record {} has {} fields, not {}",
                rows.len() + 1,
                record.len(),
                header.len()
            );
            return Err(Failure::argument(0, message));
        }
        context.spend(header.iter().map(String::len).sum())?;
        let cells = header
            .iter()
            .cloned()
            .zip(record.into_iter().map(Value::String));
        rows.push(Value::Map(cells.collect()));
    }
    Ok(Value::List(rows))
}

fn records(body: &str) -> Result<Vec<Vec<String>>, String> {
    let mut all = Vec::new();
    let mut record = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut characters = body.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if quoted => quoted = false,
            _ if quoted => field.push(c),
            '"' if field.is_empty() => quoted = true,
            '"' => return Err("a quote stands in the middle of a field".to_owned()),
            ',' => record.push(std::mem::take(&mut field)),
            '\r' if characters.peek() == Some(&'\n') => {}
            '\n' => {
                if !record.is_empty() || !field.is_empty() {
                    record.push(std::mem::take(&mut field));
                    all.push(std::mem::take(&mut record));
                }
            }
            other => field.push(other),
        }
    }
    if quoted {
        return Err("a quoted field has no end".to_owned());
    }
    if !record.is_empty() || !field.is_empty() {
        record.push(field);
        all.push(record);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_protect_commas_line_ends_and_quotes() {
        let found = records("a,b\r\n\"x,\"\"y\",\"1\n2\"\n").unwrap();
        assert_eq!(found, [vec!["a", "b"], vec!["x,\"y", "1\n2"]]);
    }
}
