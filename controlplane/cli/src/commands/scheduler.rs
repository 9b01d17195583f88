//! `drover operator scheduler`: the scheduler's settings.

use clap::{ArgAction, Args, Subcommand};
use protocol_api::operator::{
    PreemptionConfiguration, ReadScheduler, SchedulerConfiguration, SchedulerSettings,
    WriteScheduler,
};
use protocol_client::{Client, ClientError, Query};

use crate::failure::{Exit, Failure};
use crate::listing::Form;
use crate::render::columns::pairs;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum SchedulerCommand {
    /// Print the scheduler's settings
    GetConfig(GetConfig),
    /// Change the scheduler's settings; what is not named stays as it is
    SetConfig(SetConfig),
}

#[derive(Args, Debug)]
pub(crate) struct GetConfig {
    /// Print the API's answer
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SetConfig {
    /// Change them only if their modify index is this one
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    /// How nodes are filled: binpack or spread
    #[arg(long, value_name = "ALGORITHM", value_parser = ["binpack", "spread"])]
    scheduler_algorithm: Option<String>,
    /// Whether tasks may use memory up to memory_max
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    memory_oversubscription: Option<bool>,
    /// Whether jobs are registered for callers with a management token only
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    reject_job_registration: Option<bool>,
    /// Whether evaluations wait
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pause_eval_broker: Option<bool>,
    /// Whether batch jobs preempt
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    preempt_batch_scheduler: Option<bool>,
    /// Whether services preempt
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    preempt_service_scheduler: Option<bool>,
    /// Whether sysbatch jobs preempt
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    preempt_sysbatch_scheduler: Option<bool>,
    /// Whether system jobs preempt
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    preempt_system_scheduler: Option<bool>,
}

impl SchedulerCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        match self {
            Self::GetConfig(GetConfig { json }) => {
                let query = Query::new();
                let read = (&ReadScheduler {}, &query);
                let form = Form::new(json);
                session.show(&client, read, form, render).await?;
                Ok(Exit::SUCCESS)
            }
            Self::SetConfig(command) => command.run(session, &client).await,
        }
    }
}

impl SetConfig {
    async fn run(self, session: &Session, client: &Client) -> Result<Exit, Failure> {
        let settings = client.call(&ReadScheduler {}, &Query::new()).await?.value;
        let query = Query::new().with_some("cas", self.check_index);
        let self_checks = self.check_index.is_some();
        let write = WriteScheduler {};
        let wanted = self.applied_to(settings.scheduler_config);
        let answer = client.call_with(&write, &query, &wanted).await;
        let updated = match answer {
            Ok(answer) => {
                let written = answer.value;
                if !written.warnings.is_empty() {
                    session.out.note(&format!("warning: {}", written.warnings));
                }
                written.updated
            }
            // The index moved between reading and writing.
            Err(ClientError::Status { code: 409, .. }) if self_checks => false,
            Err(error) => return Err(error.into()),
        };
        if updated {
            session.out.data("Scheduler configuration updated!")?;
            return Ok(Exit::SUCCESS);
        }
        session.out.note(
            "Scheduler configuration could not be atomically updated, please check the latest \
             index and try again",
        );
        Ok(Exit::NO)
    }

    fn applied_to(self, mut config: SchedulerConfiguration) -> SchedulerConfiguration {
        let Self {
            check_index: _,
            scheduler_algorithm,
            memory_oversubscription,
            reject_job_registration,
            pause_eval_broker,
            preempt_batch_scheduler,
            preempt_service_scheduler,
            preempt_sysbatch_scheduler,
            preempt_system_scheduler,
        } = self;
        if let Some(algorithm) = scheduler_algorithm {
            config.scheduler_algorithm = algorithm;
        }
        let preemption = config
            .preemption_config
            .get_or_insert_with(PreemptionConfiguration::default);
        for (wanted, setting) in [
            (
                preempt_batch_scheduler,
                &mut preemption.batch_scheduler_enabled,
            ),
            (
                preempt_service_scheduler,
                &mut preemption.service_scheduler_enabled,
            ),
            (
                preempt_sysbatch_scheduler,
                &mut preemption.sys_batch_scheduler_enabled,
            ),
            (
                preempt_system_scheduler,
                &mut preemption.system_scheduler_enabled,
            ),
            (
                memory_oversubscription,
                &mut config.memory_oversubscription_enabled,
            ),
            (reject_job_registration, &mut config.reject_job_registration),
            (pause_eval_broker, &mut config.pause_eval_broker),
        ] {
            if let Some(wanted) = wanted {
                *setting = wanted;
            }
        }
        config
    }
}

fn render(settings: SchedulerSettings) -> String {
    let config = settings.scheduler_config;
    let preemption = config.preemption_config.unwrap_or_default();
    pairs(&[
        ("Scheduler Algorithm", config.scheduler_algorithm),
        (
            "Memory Oversubscription",
            config.memory_oversubscription_enabled.to_string(),
        ),
        (
            "Reject Job Registration",
            config.reject_job_registration.to_string(),
        ),
        ("Pause Eval Broker", config.pause_eval_broker.to_string()),
        (
            "Preemption System Scheduler",
            preemption.system_scheduler_enabled.to_string(),
        ),
        (
            "Preemption Service Scheduler",
            preemption.service_scheduler_enabled.to_string(),
        ),
        (
            "Preemption Batch Scheduler",
            preemption.batch_scheduler_enabled.to_string(),
        ),
        (
            "Preemption SysBatch Scheduler",
            preemption.sys_batch_scheduler_enabled.to_string(),
        ),
        ("Modify Index", config.modify_index.to_string()),
    ])
}
