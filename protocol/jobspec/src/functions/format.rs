//! `format` and `formatlist`: verbs as in Go, `%[flags][width][.precision][[argument]]verb`.

use super::arguments::{at, text};
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::{Number, Value};

/// Largest width and precision.
const PADDING_MAX: usize = 1024;

pub(super) static FUNCTIONS: &[Function] = &[
    function("format", Arity::at_least(1), |context, arguments| {
        render(context, &text(arguments, 0)?, &arguments[1..]).map(Value::String)
    }),
    function("formatlist", Arity::at_least(1), format_list),
];

#[derive(Debug, Default)]
struct Directive {
    minus: bool,
    plus: bool,
    space: bool,
    zero: bool,
    sharp: bool,
    width: usize,
    precision: Option<usize>,
    verb: char,
}

fn render(
    context: &mut Context<'_, '_>,
    pattern: &str,
    arguments: &[Value],
) -> Result<String, Failure> {
    let mut out = String::new();
    let mut characters = pattern.chars().peekable();
    let mut next = 0;
    let mut chosen_by_number = false;
    while let Some(c) = characters.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let (directive, explicit) = parse(&mut characters)?;
        if directive.verb == '%' {
            out.push('%');
            continue;
        }
        if let Some(position) = explicit {
            next = position;
            chosen_by_number = true;
        }
        let Some(value) = arguments.get(next) else {
            let message = format!("there is no argument for `%{}`", directive.verb);
            return Err(Failure::argument(0, message));
        };
        let piece =
            piece(&directive, value).map_err(|message| Failure::argument(next + 1, message))?;
        next += 1;
        context.spend(piece.len())?;
        out.push_str(&piece);
    }
    if next < arguments.len() && !chosen_by_number {
        let message = format!("{} argument(s) have no verb", arguments.len() - next);
        return Err(Failure::argument(0, message));
    }
    Ok(out)
}

type Characters<'p> = std::iter::Peekable<std::str::Chars<'p>>;

/// Reads what follows `%`, and the argument position if one is given.
fn parse(characters: &mut Characters<'_>) -> Result<(Directive, Option<usize>), Failure> {
    let mut directive = Directive::default();
    while let Some(flag) = characters.peek() {
        match flag {
            '-' => directive.minus = true,
            '+' => directive.plus = true,
            ' ' => directive.space = true,
            '0' => directive.zero = true,
            '#' => directive.sharp = true,
            _ => break,
        }
        characters.next();
    }
    directive.width = digits(characters)?.unwrap_or(0);
    if characters.next_if_eq(&'.').is_some() {
        directive.precision = Some(digits(characters)?.unwrap_or(0));
    }
    let mut explicit = None;
    if characters.next_if_eq(&'[').is_some() {
        explicit = digits(characters)?.and_then(|n| n.checked_sub(1));
        if explicit.is_none() || characters.next_if_eq(&']').is_none() {
            return Err(Failure::argument(
                0,
                "`[` must be followed by a position and `]`",
            ));
        }
    }
    directive.verb = characters.next().ok_or_else(|| {
        Failure::argument(0, "the text ends after `%`; write `%%` for a percent sign")
    })?;
    Ok((directive, explicit))
}

fn digits(characters: &mut Characters<'_>) -> Result<Option<usize>, Failure> {
    let mut number: Option<usize> = None;
    while let Some(digit) = characters.next_if(char::is_ascii_digit) {
        let digit = digit.to_digit(10).unwrap_or(0) as usize;
        let value = number.unwrap_or(0) * 10 + digit;
        if value > PADDING_MAX {
            return Err(Failure::argument(0, format!("widths end at {PADDING_MAX}")));
        }
        number = Some(value);
    }
    Ok(number)
}

fn piece(directive: &Directive, value: &Value) -> Result<String, String> {
    let text = || {
        value
            .to_text()
            .ok_or_else(|| format!("this is {}, not text", value.kind()))
    };
    let number = || {
        value
            .to_number()
            .ok_or_else(|| format!("this is {}, not a number", value.kind()))
    };
    let body = match directive.verb {
        'v' if directive.sharp => value.clone().into_json().to_string(),
        'v' => match value {
            Value::Null => "null".to_owned(),
            Value::List(_) | Value::Set(_) | Value::Map(_) => value.clone().into_json().to_string(),
            Value::Bool(_) | Value::String(_) => text()?,
            Value::Number(_) => return Ok(numeric(directive, text()?)),
        },
        's' => cut(text()?, directive.precision),
        'q' => serde_json::Value::String(cut(text()?, directive.precision)).to_string(),
        't' => match value.to_bool() {
            Some(flag) => flag.to_string(),
            None => return Err(format!("this is {}, not a boolean", value.kind())),
        },
        'd' => return Ok(numeric(directive, truncated(number()?).to_string())),
        'b' => {
            return Ok(numeric(
                directive,
                radix(truncated(number()?), |n| format!("{n:b}")),
            ));
        }
        'o' => {
            return Ok(numeric(
                directive,
                radix(truncated(number()?), |n| format!("{n:o}")),
            ));
        }
        'x' => {
            return Ok(numeric(
                directive,
                radix(truncated(number()?), |n| format!("{n:x}")),
            ));
        }
        'X' => {
            return Ok(numeric(
                directive,
                radix(truncated(number()?), |n| format!("{n:X}")),
            ));
        }
        'f' | 'F' => {
            let precision = directive.precision.unwrap_or(6);
            return Ok(numeric(
                directive,
                format!("{:.precision$}", number()?.as_f64()),
            ));
        }
        'e' | 'E' => {
            let precision = directive.precision.unwrap_or(6);
            return Ok(numeric(
                directive,
                exponent(number()?.as_f64(), precision, directive.verb),
            ));
        }
        'g' | 'G' => return Ok(numeric(directive, number()?.to_string())),
        other => return Err(format!("there is no verb `%{other}`")),
    };
    Ok(pad(directive, body, ' '))
}

fn truncated(number: Number) -> i128 {
    match number {
        Number::Whole(whole) => whole,
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the verb asks for whole numbers"
        )]
        Number::Float(float) => float as i128,
    }
}

fn radix(number: i128, digits: fn(u128) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

/// Go's form of an exponent has a sign and two digits at least.
fn exponent(value: f64, precision: usize, verb: char) -> String {
    let plain = format!("{value:.precision$e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}{verb}{sign}{digits:0>2}")
}

fn cut(text: String, precision: Option<usize>) -> String {
    match precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text,
    }
}

fn numeric(directive: &Directive, digits: String) -> String {
    let mut out = digits;
    if !out.starts_with('-') {
        if directive.plus {
            out.insert(0, '+');
        } else if directive.space {
            out.insert(0, ' ');
        }
    }
    pad(
        directive,
        out,
        if directive.zero && !directive.minus {
            '0'
        } else {
            ' '
        },
    )
}

fn pad(directive: &Directive, body: String, fill: char) -> String {
    let missing = directive.width.saturating_sub(body.chars().count());
    let padding: String = std::iter::repeat_n(fill, missing).collect();
    if directive.minus {
        return body + &padding;
    }
    // Zeros go between the sign and the digits.
    match body.strip_prefix(['-', '+', ' ']) {
        Some(rest) if fill == '0' => format!("{}{padding}{rest}", &body[..1]),
        _ => padding + &body,
    }
}

/// One text for each position of the list arguments; other arguments repeat.
fn format_list(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let pattern = text(arguments, 0)?;
    let mut length: Option<usize> = None;
    for position in 1..arguments.len() {
        let Some(elements) = at(arguments, position).elements() else {
            continue;
        };
        if length.is_some_and(|length| length != elements.len()) {
            return Err(Failure::argument(
                position,
                "all lists must have the same length",
            ));
        }
        length = Some(elements.len());
    }
    let mut out = Vec::new();
    for row in 0..length.unwrap_or(1) {
        let mut cells = Vec::with_capacity(arguments.len());
        for argument in &arguments[1..] {
            let cell = argument
                .elements()
                .map_or(argument, |elements| at(elements, row));
            context.machine.spend_value(cell)?;
            cells.push(cell.clone());
        }
        out.push(Value::String(render(context, &pattern, &cells)?));
    }
    Ok(Value::List(out))
}
