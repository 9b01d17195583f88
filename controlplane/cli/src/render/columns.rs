//! Columns as Nomad's users know them: two spaces between, no borders, nothing behind the last.

const GAP: &str = "  ";

/// A table: a heading and rows of as many cells.
#[derive(Debug)]
pub(crate) struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// A table with this heading.
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(|&cell| cell.to_owned()).collect()],
        }
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push(cells.into_iter().map(|cell| shown(&cell)).collect());
    }

    /// The table as text, a newline after every row.
    pub(crate) fn render(&self) -> String {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..count).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            text.push_str(cells.join(GAP).trim_end());
            text.push('\n');
        }
        text
    }
}

fn shown(cell: &str) -> String {
    if cell.is_empty() {
        return "<none>".to_owned();
    }
    // Words of users and tasks: a control character must not steer a terminal, nor break a row.
    cell.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Names and values: `Name = value`, the signs below each other.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{name:<width$} = {}\n", shown(value));
    pairs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Columns::new(&["ID", "Name"]);
        table.row(["1".to_owned(), "long name".to_owned()]);
        table.row(["1234".to_owned(), String::new()]);
        assert_eq!(
            table.render(),
            "ID    Name\n1     long name\n1234  <none>\n"
        );
    }

    #[test]
    fn pairs_stand_below_each_other() {
        let text = pairs(&[("ID", "a".to_owned()), ("Node ID", "b".to_owned())]);
        assert_eq!(text, "ID      = a\nNode ID = b\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(
            pairs(&[("A", "x\u{1b}[31m\ny".to_owned())]),
            "A = x [31m y\n"
        );
    }
}
