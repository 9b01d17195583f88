//! `drover status`: whatever begins so.

use clap::Args;
use protocol_api::search::{Search, SearchRequest};
use protocol_client::Query;

use crate::arguments::Arguments;
use crate::failure::{Exit, Failure};
use crate::render::columns::Columns;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The beginning of an id or a name; all jobs where not given
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
}

/// The commands that show what the contexts of a search find.
const SHOWS: [(&str, &[&str]); 6] = [
    ("jobs", &["job", "status"]),
    ("allocs", &["alloc", "status"]),
    ("evals", &["eval", "status"]),
    ("nodes", &["node", "status"]),
    ("deployment", &["deployment", "status"]),
    ("namespaces", &["namespace", "status"]),
];

impl Status {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        use clap::Parser as _;
        let words: Vec<String> = match &self.prefix {
            None => vec!["job".to_owned(), "status".to_owned()],
            Some(prefix) => match Self::search(session, prefix).await? {
                Some(words) => words,
                None => return Ok(Exit::NO),
            },
        };
        let program = std::iter::once("drover".to_owned());
        let parsed = Arguments::try_parse_from(program.chain(words));
        let arguments = parsed.map_err(|error| Failure::usage(error.to_string()))?;
        Box::pin(arguments.command.run(session)).await
    }

    /// The command that shows the one thing that begins so; `None` after several were listed.
    async fn search(session: &Session, prefix: &str) -> Result<Option<Vec<String>>, Failure> {
        let client = session.client()?;
        let request = SearchRequest {
            prefix: prefix.to_owned(),
            context: "all".to_owned(),
        };
        let found = client
            .call_with(&Search, &Query::new(), &request)
            .await?
            .value;
        let exact = |name: &String| name == prefix;
        let one = |context: &str, id: &str| {
            let show = SHOWS.iter().find(|(name, _)| *name == context);
            show.map(|(_, words)| {
                let words = words.iter().map(|&word| word.to_owned());
                words.chain([id.to_owned()]).collect()
            })
        };
        // A whole name means that one, whatever else begins so.
        for (context, ids) in &found.matches {
            if let Some(id) = ids.iter().find(|name| exact(name)) {
                return Ok(one(context, id));
            }
        }
        let all: Vec<(&String, &String)> = found
            .matches
            .iter()
            .flat_map(|(context, ids)| ids.iter().map(move |id| (context, id)))
            .collect();
        match all.as_slice() {
            [] => Err(Failure::NotFound {
                what: "object",
                id: prefix.to_owned(),
            }),
            [(context, id)] => Ok(one(context, id)),
            several => {
                let mut table = Columns::new(&["Kind", "ID"]);
                for (context, id) in several {
                    table.row([(*context).clone(), (*id).clone()]);
                }
                session.out.data(&table.render())?;
                if found.truncations.values().any(|truncated| *truncated) {
                    session.out.note("hint: there is more; give more of the id");
                }
                Ok(None)
            }
        }
    }
}
