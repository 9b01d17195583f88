//! `drover alloc status`.

use clap::Args;
use protocol_api::allocations::{ListAllocations, ReadAllocation};
use protocol_api::client::AllocationStats;
use protocol_client::Query;

use super::target;
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length};
use crate::listing::Form;
use crate::render::{alloc, job};
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The allocation's id, or its beginning; all allocations where not given
    #[arg(value_name = "ALLOC")]
    alloc: Option<String>,
    /// Answer of the API
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
        let form = Form::new(self.json);
        let Some(text) = &self.alloc else {
            let list = (&ListAllocations, &Query::new());
            let render = |allocs: Vec<_>| job::allocations(&allocs, length, &clock);
            session.show(&client, list, form, render).await?;
            return Ok(Exit::SUCCESS);
        };
        if form == Form::Json {
            let id = &find::id(&client, Kind::Allocation, text).await?;
            let read = (&ReadAllocation { id }, &Query::new());
            session.show(&client, read, form, |_| String::new()).await?;
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
            let id = &found.id.to_string();
            let stats = client.call(&AllocationStats { id }, &Query::new()).await?;
            let stats = stats.value;
            text.push_str(&view.stats(&stats));
        }
        session.out.data(&text)?;
        Ok(Exit::SUCCESS)
    }
}
