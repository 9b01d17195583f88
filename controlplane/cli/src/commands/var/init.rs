//! `drover var init`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The file to write; spec.nv.hcl or spec.nv.json where it is left out
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The format of the file
    #[arg(long, value_name = "FORMAT", default_value = "hcl")]
    out: InitForm,
    /// Print no hints
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum InitForm {
    Hcl,
    Json,
}

const HCL: &str = r#"# The path of the variable. `drover var put` may name another one.
path = "path/to/variable"

# The namespace, which -namespace overrides.
# namespace = "default"

# The items are the only part that has to be there.
items {
  key1 = "value 1"
  key2 = "value 2"
}
"#;

const JSON: &str = r#"{
  "Path": "path/to/variable",
  "Namespace": "default",
  "Items": {
    "key1": "value 1",
    "key2": "value 2"
  }
}
"#;

impl Init {
    pub(super) fn run(self, session: &Session) -> Result<(), Failure> {
        let (text, name) = match self.out {
            InitForm::Hcl => (HCL, "spec.nv.hcl"),
            InitForm::Json => (JSON, "spec.nv.json"),
        };
        let path = self.file.unwrap_or_else(|| PathBuf::from(name));
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|source| Failure::WriteFile {
            path: path.clone(),
            source,
        })?;
        let shown = path.display();
        let text = format!("Example variable specification written to {shown}");
        session.out.data(&text)?;
        if !self.quiet {
            let hint = format!("hint: `drover var put @{shown}` writes the variable");
            session.out.note(&hint);
        }
        Ok(())
    }
}
