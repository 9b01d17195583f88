//! `drover alloc status`.

use clap::Args;
use protocol_client::Query;
use protocol_model::AllocationListStub;
use serde_json::Value;

use super::target;
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
use crate::render::{alloc, job};
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The allocation's id, or its beginning; all allocations where not given
    #[arg(value_name = "ALLOC")]
    alloc: Option<String>,
    /// What the API answers
    #[arg(long)]
    json: bool,
    /// Only the tasks' states
    #[arg(long)]
    short: bool,
    /// What its tasks use now, as their node measures it
    #[arg(long)]
    stats: bool,
    /// Whole ids, and why it was placed where it is
    #[arg(long)]
    verbose: bool,
}

impl Status {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let clock = session.clock();
        let length = Length::new(self.verbose);
        let Some(text) = &self.alloc else {
            let query = Query::new();
            if self.json {
                let allocs: Value = client.get("/v1/allocations", &query).await?.value;
                session.out.json(&allocs)?;
            } else {
                let allocs: Vec<AllocationListStub> =
                    client.get("/v1/allocations", &query).await?.value;
                session
                    .out
                    .data(&job::allocations(&allocs, length, &clock))?;
            }
            return Ok(Exit::SUCCESS);
        };
        if self.json {
            let id = find::id(&client, Kind::Allocation, text).await?;
            let path = format!("/v1/allocation/{id}");
            let alloc: Value = client.get(&path, &Query::new()).await?.value;
            session.out.json(&alloc)?;
            return Ok(Exit::SUCCESS);
        }
        let found = target::allocation(&client, text, false, None).await?;
        let view = alloc::View {
            length,
            colour: session.out.colour(),
            clock: &clock,
        };
        let mut text = if self.short {
            view.short(&found)
        } else {
            view.whole(&found)
        };
        if self.stats {
            let path = format!("/v1/client/allocation/{}/stats", found.id);
            let stats: Value = client.get(&path, &Query::new()).await?.value;
            text.push_str(&view.stats(&stats));
        }
        session.out.data(&text)?;
        Ok(Exit::SUCCESS)
    }
}
