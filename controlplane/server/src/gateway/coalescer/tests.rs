//! What becomes one entry, and how long batches wait.

use std::pin::pin;

use controlplane_keyring::MemoryKeks;
use controlplane_state::{Command, Outcome, SessionEpoch, Stamped, codec};
use futures::poll;
use protocol_model::{AllocId, ClientStatus, NodeId, UnixNanos};
use protocol_wire::report::AllocReport;
use protocol_wire::v1::{self, UpdateClass};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::cluster::{Changed, LeadingError};
use crate::forward::Forward;
use crate::gateway::lone::{Lone, lone};
use crate::keyring::KekService;

#[tokio::test]
async fn what_finds_no_room_waits_until_something_was_answered() {
    let (queue, mut waiting) = mpsc::channel(QUEUE_MAX);
    let coalescer = Coalescer {
        queue,
        room: Arc::new(Semaphore::new(1000)),
        waits: SharedPace::default(),
    };
    let submit = |node, bytes| coalescer.submit(batch(node), bytes);
    let (mut first, mut second) = (pin!(submit(1, 600)), pin!(submit(2, 600)));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    let one = waiting.try_recv().expect("there was room for it");
    assert!(waiting.is_empty(), "and for nothing else");
    // Taken out of the queue is not answered: its stream still waits.
    assert!(poll!(&mut second).is_pending());
    assert!(waiting.is_empty());
    let Waiting {
        answer,
        _room: room,
        ..
    } = one;
    let judged = BatchResult {
        node: NodeId::from_u128(1),
        epoch: SessionEpoch(1),
        class: UpdateClass::Urgent,
        seq: 1,
        results: Vec::new(),
        rejected: None,
    };
    answer
        .send(Ok((7, vec![judged.clone()])))
        .expect("it listens");
    drop(room);
    assert_eq!(first.await.expect("it was judged"), (7, judged));
    assert!(poll!(&mut second).is_pending());
    let next = waiting.try_recv().expect("its turn has come");
    assert_eq!(next.group.batches[0].node, NodeId::from_u128(2));
}

#[test]
fn nodes_let_updates_gather_longer_where_the_log_is_slow() {
    let of = |wait| interval(Duration::from_millis(wait)).as_millis();
    assert_eq!([of(0), of(5), of(50)], [1000, 1000, 1000], "it keeps up");
    assert_eq!([of(100), of(250)], [2000, 5000]);
    assert_eq!([of(500), of(60_000)], [10_000, 10_000], "no longer");
}

/// A log in which an entry is on its way until the test says what became of it.
struct HeldLog {
    entries: mpsc::Sender<Entry>,
}

/// How an entry is proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Through whoever leads.
    Anyones,
    /// By this server, which leads.
    Leaders,
}

struct Entry {
    way: Way,
    batches: Vec<NodeBatch>,
    answer: oneshot::Sender<Result<Changed, LeadingError>>,
}

impl HeldLog {
    async fn propose(&self, way: Way, command: Command) -> Result<Changed, LeadingError> {
        let Command::AllocUpdates { batches } = command else {
            panic!("updates, not {command:?}");
        };
        let (answer, answered) = oneshot::channel();
        let entry = Entry {
            way,
            batches,
            answer,
        };
        let sent = self.entries.send(entry).await;
        assert!(sent.is_ok(), "the test looks at it");
        answered.await.expect("it is answered")
    }
}

impl Log for HeldLog {
    async fn change(&self, command: Command) -> Result<Changed, ChangeError> {
        match self.propose(Way::Anyones, command).await {
            Ok(changed) => Ok(changed),
            Err(LeadingError::Change(error)) => Err(error),
            Err(error @ LeadingError::NotLeading(_)) => panic!("no answer to this: {error}"),
        }
    }

    async fn change_as_leader(&self, command: Command, term: u64) -> Result<Changed, LeadingError> {
        assert_eq!(term, self.term());
        self.propose(Way::Leaders, command).await
    }

    fn term(&self) -> u64 {
        3
    }
}

impl Entry {
    /// Whose batches it has, in order.
    fn nodes(&self) -> Vec<u128> {
        self.batches.iter().map(|it| it.node.0.as_u128()).collect()
    }

    /// The leader is lost, and nobody knows what became of it.
    fn lose(self) {
        let unknown = Err(LeadingError::Change(ChangeError::OutcomeUnknown));
        assert!(self.answer.send(unknown).is_ok(), "it is waited for");
    }

    /// It is applied, at an index that says how many batches it has.
    fn apply(self) {
        let results = self.batches.iter().map(|batch| BatchResult {
            node: batch.node,
            epoch: batch.epoch,
            class: batch.class,
            seq: batch.seq,
            results: Vec::new(),
            rejected: None,
        });
        let changed = Changed {
            index: self.batches.len() as u64,
            outcome: Outcome::Updates(results.collect()),
        };
        assert!(self.answer.send(Ok(changed)).is_ok(), "it is waited for");
    }
}

/// A coalescer whose loop runs, and the entries that it proposes.
fn begin(merging: Merging) -> (Arc<Coalescer>, mpsc::Receiver<Entry>) {
    let (queue, waiting) = mpsc::channel(QUEUE_MAX);
    let coalescer = Coalescer {
        queue,
        room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
        waits: SharedPace::default(),
    };
    let (entries, proposed) = mpsc::channel(1);
    let updates = CoalescerLoop {
        proposer: Proposer {
            log: HeldLog { entries },
            waits: coalescer.waits.clone(),
        },
        waiting,
        merging,
    };
    tokio::spawn(updates.run());
    (Arc::new(coalescer), proposed)
}

fn batch(node: u128) -> NodeBatch {
    NodeBatch {
        node: NodeId::from_u128(node),
        epoch: SessionEpoch(1),
        class: UpdateClass::Urgent,
        seq: 1,
        reports: Vec::new(),
    }
}

/// The end of an allocation of this node's.
fn end(node: u128) -> NodeBatch {
    let ended = AllocReport::new(AllocId::from_u128(node), 1, ClientStatus::Complete);
    NodeBatch {
        reports: vec![ended],
        ..batch(node)
    }
}

type Answered<T> = JoinHandle<Result<(u64, T), Arc<ChangeError>>>;

fn submit(coalescer: &Arc<Coalescer>, node: u128) -> Answered<BatchResult> {
    submit_batch(coalescer, batch(node))
}

fn submit_batch(coalescer: &Arc<Coalescer>, batch: NodeBatch) -> Answered<BatchResult> {
    let coalescer = Arc::clone(coalescer);
    tokio::spawn(async move { coalescer.submit(batch, 100).await })
}

/// As another server does that has merged batches of these nodes.
fn submit_merged(coalescer: &Arc<Coalescer>, nodes: &[u128]) -> Answered<Vec<BatchResult>> {
    let (coalescer, nodes) = (Arc::clone(coalescer), nodes.to_vec());
    tokio::spawn(async move {
        let batches = nodes.into_iter().map(batch).collect();
        coalescer.submit_merged(batches, 100).await
    })
}

/// Waits until so many groups are there that were not answered, those on their way among them.
async fn until_there(coalescer: &Coalescer, count: usize) {
    // Every task has its turn; each of them has one thing to do until then.
    for _ in 0..100 {
        let taken = QUEUE_BYTES_MAX - coalescer.room.available_permits();
        if taken >= count * GROUP_BYTES_MIN {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("not {count} are there");
}

/// A loop that proposes next what another server merged and what a node here has, together.
async fn one_of_each() -> (
    mpsc::Receiver<Entry>,
    Answered<Vec<BatchResult>>,
    Answered<BatchResult>,
) {
    let (coalescer, mut proposed) = begin(Merging::On);
    let first = submit(&coalescer, 1);
    let entry = next(&mut proposed).await;
    let (merged, own) = (submit_merged(&coalescer, &[21]), submit(&coalescer, 11));
    until_there(&coalescer, 3).await;
    entry.apply();
    answer(first).await.expect("it is judged");
    (proposed, merged, own)
}

/// What is proposed next. Virtual time: a wait for nothing ends at once.
async fn next(proposed: &mut mpsc::Receiver<Entry>) -> Entry {
    let entry = timeout(Duration::from_secs(60), proposed.recv()).await;
    entry.expect("an entry").expect("the loop runs")
}

async fn answer<T>(answered: Answered<T>) -> Result<(u64, T), Arc<ChangeError>> {
    let answer = timeout(Duration::from_secs(60), answered).await;
    answer.expect("an answer").expect("it does not panic")
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_an_entry_is_on_its_way_becomes_one_entry() {
    let (coalescer, mut proposed) = begin(Merging::On);
    let first = submit(&coalescer, 1);
    let entry = next(&mut proposed).await;
    assert_eq!((entry.way, entry.nodes()), (Way::Anyones, vec![1]));
    let others: Vec<_> = (2..12).map(|node| submit(&coalescer, node)).collect();
    until_there(&coalescer, 11).await;
    assert!(proposed.is_empty(), "one at a time");
    entry.apply();
    assert_eq!(answer(first).await.expect("it is judged").0, 1);
    let entry = next(&mut proposed).await;
    assert_eq!(entry.nodes(), (2..12).collect::<Vec<_>>());
    entry.apply();
    for (node, other) in (2..12).zip(others) {
        let (index, result) = answer(other).await.expect("it is judged");
        assert_eq!((index, result.node), (10, NodeId::from_u128(node)));
    }
    assert!(proposed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_end_goes_after_an_entry_that_takes_long_and_nothing_else_does() {
    let (coalescer, mut proposed) = begin(Merging::On);
    let first = submit(&coalescer, 1);
    let slow = next(&mut proposed).await;
    let going = submit(&coalescer, 2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(proposed.is_empty(), "it can wait");
    let begun = Instant::now();
    let ends = [3, 4].map(|node| submit_batch(&coalescer, end(node)));
    let entry = next(&mut proposed).await;
    assert_eq!(Instant::now(), begun, "the other takes long already");
    // Whatever waits goes along.
    assert_eq!(entry.nodes(), [2, 3, 4]);
    entry.apply();
    for one in ends.into_iter().chain([going]) {
        assert_eq!(answer(one).await.expect("it is judged").0, 3);
    }
    assert!(!first.is_finished());
    slow.apply();
    assert_eq!(answer(first).await.expect("it is judged").0, 1);
}

#[tokio::test(start_paused = true)]
async fn ends_gather_too_while_all_takes_long() {
    let (coalescer, mut proposed) = begin(Merging::On);
    let first = submit_batch(&coalescer, end(1));
    let mut slow = vec![next(&mut proposed).await];
    let begun = Instant::now();
    let mut ends = vec![first];
    for node in 2..20 {
        ends.push(submit_batch(&coalescer, end(node)));
        tokio::time::sleep(Duration::from_millis(1)).await;
        while let Ok(entry) = proposed.try_recv() {
            slow.push(entry);
        }
    }
    assert_eq!(begun.elapsed().as_millis(), 18);
    // To the millisecond: timers are no finer.
    let nodes: Vec<u128> = slow.iter().flat_map(Entry::nodes).collect();
    assert!(nodes.iter().copied().eq(1..=nodes.len() as u128));
    assert!((15..=18).contains(&nodes.len()), "{nodes:?}");
    assert_eq!(slow.len(), 4, "some milliseconds apart, and not one more");
    for entry in slow {
        entry.apply();
    }
    let last = next(&mut proposed).await;
    assert_eq!(last.nodes().len(), 19 - nodes.len());
    last.apply();
    for end in ends {
        answer(end).await.expect("it is judged");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_given_up_while_it_waited_is_not_proposed() {
    let (coalescer, mut proposed) = begin(Merging::On);
    let first = submit(&coalescer, 1);
    let entry = next(&mut proposed).await;
    let [given_up, waits] = [2, 3].map(|node| submit_batch(&coalescer, end(node)));
    // Its node has begun another session, and tells it there.
    let elsewhere = submit_batch(&coalescer, end(2));
    until_there(&coalescer, 4).await;
    given_up.abort();
    assert!(given_up.await.is_err_and(|error| error.is_cancelled()));
    entry.apply();
    let entry = next(&mut proposed).await;
    assert_eq!(entry.nodes(), [3, 2]);
    entry.apply();
    for one in [first, waits, elsewhere] {
        answer(one).await.expect("it is judged");
    }
    // Where all were, there is no entry, and what comes then has its own.
    let first = submit(&coalescer, 4);
    let entry = next(&mut proposed).await;
    let given_up = submit(&coalescer, 5);
    until_there(&coalescer, 2).await;
    given_up.abort();
    let _ = given_up.await;
    entry.apply();
    answer(first).await.expect("it is judged");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(proposed.is_empty());
    let last = submit(&coalescer, 6);
    let entry = next(&mut proposed).await;
    assert_eq!(entry.nodes(), [6]);
    entry.apply();
    answer(last).await.expect("it is judged");
}

#[tokio::test(start_paused = true)]
async fn nothing_shares_an_entry_where_nothing_is_to_be_merged() {
    let (coalescer, mut proposed) = begin(Merging::Off);
    let all: Vec<_> = (1..4).map(|node| submit(&coalescer, node)).collect();
    for node in 1..4 {
        let entry = next(&mut proposed).await;
        assert_eq!(entry.nodes(), [node]);
        entry.apply();
    }
    for one in all {
        assert_eq!(answer(one).await.expect("it is judged").0, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_two_followers_merged_and_the_leaders_own_become_one_entry() {
    let (coalescer, mut proposed) = begin(Merging::On);
    let first = submit(&coalescer, 1);
    let entry = next(&mut proposed).await;
    let of_followers = [&[21, 22][..], &[31, 32, 33]].map(|it| submit_merged(&coalescer, it));
    let own = submit(&coalescer, 11);
    until_there(&coalescer, 4).await;
    entry.apply();
    let entry = next(&mut proposed).await;
    assert_eq!(entry.way, Way::Leaders, "and nobody else's");
    assert_eq!(entry.nodes(), [11, 21, 22, 31, 32, 33]);
    entry.apply();
    answer(first).await.expect("it is judged");
    let (index, result) = answer(own).await.expect("it is judged");
    assert_eq!((index, result.node), (6, NodeId::from_u128(11)));
    for (merged, nodes) in of_followers.into_iter().zip([&[21, 22][..], &[31, 32, 33]]) {
        let (index, results) = answer(merged).await.expect("it is judged");
        let of: Vec<u128> = results.iter().map(|it| it.node.0.as_u128()).collect();
        assert_eq!((index, of.as_slice()), (6, nodes));
    }
    assert!(proposed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leads_no_more_proposes_its_own_and_nothing_of_others() {
    let (mut proposed, merged, own) = one_of_each().await;
    let entry = next(&mut proposed).await;
    let not_leading = Err(LeadingError::NotLeading(3));
    entry.answer.send(not_leading).expect("it is waited for");
    let entry = next(&mut proposed).await;
    assert_eq!((entry.way, entry.nodes()), (Way::Anyones, vec![11]));
    entry.apply();
    answer(own).await.expect("it is judged");
    let error = answer(merged).await.expect_err("nobody knows");
    assert!(matches!(*error, ChangeError::OutcomeUnknown), "{error}");
}

/// What was applied twice is seen by its number, so that nodes need not look for another server.
#[tokio::test(start_paused = true)]
async fn an_entry_that_was_lost_with_its_leader_is_proposed_once_more() {
    for again in [true, false] {
        let (coalescer, mut proposed) = begin(Merging::On);
        let nodes = [1, 2].map(|node| submit(&coalescer, node));
        next(&mut proposed).await.lose();
        let entry = next(&mut proposed).await;
        assert_eq!((entry.way, entry.nodes()), (Way::Anyones, vec![1, 2]));
        if again {
            entry.apply();
        } else {
            entry.lose();
        }
        for one in nodes {
            match answer(one).await {
                Ok((index, _)) => assert!(again && index == 2),
                Err(error) => assert!(!again && matches!(*error, ChangeError::OutcomeUnknown)),
            }
        }
        assert!(proposed.is_empty(), "and not a third time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_lost_with_an_entry_proposes_its_own_once_more_and_nothing_of_others() {
    let (mut proposed, merged, own) = one_of_each().await;
    let entry = next(&mut proposed).await;
    assert_eq!((entry.way, entry.nodes()), (Way::Leaders, vec![11, 21]));
    entry.lose();
    let entry = next(&mut proposed).await;
    assert_eq!((entry.way, entry.nodes()), (Way::Anyones, vec![11]));
    entry.apply();
    answer(own).await.expect("it is judged");
    // Its server's nodes send it again there.
    let error = answer(merged).await.expect_err("nobody knows");
    assert!(matches!(*error, ChangeError::OutcomeUnknown), "{error}");
}

#[tokio::test(start_paused = true)]
async fn how_long_batches_wait_for_the_log_says_how_long_nodes_let_theirs_gather() {
    let (coalescer, mut proposed) = begin(Merging::On);
    let interval = || coalescer.typical_interval(Instant::now()).as_millis();
    assert_eq!(interval(), 1000, "nothing is known yet");
    let submitted = submit(&coalescer, 1);
    let entry = next(&mut proposed).await;
    tokio::time::advance(Duration::from_millis(250)).await;
    assert_eq!(interval(), 5000, "it waits already");
    entry.apply();
    answer(submitted).await.expect("it is judged");
    assert_eq!(interval(), 5000);
    // It comes back to normal by itself.
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(interval(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_has_merged_waits_in_the_leaders_queue() {
    let Lone {
        server,
        gateway,
        mut updates,
        directory,
    } = lone().await;
    let (heard, _heard) = mpsc::channel(1);
    let cluster = server.cluster().clone();
    let config = crate::config::Config::dev(directory.path().to_owned()).expect("a configuration");
    let keks = KekService::new(Arc::new(MemoryKeks::default()));
    let forward = Forward::new(cluster, (gateway, keks), heard, Arc::new(config));
    let batches = vec![batch(1), batch(2)];
    let command = Stamped {
        now: UnixNanos(1),
        seed: [0; 16],
        command: Command::AllocUpdates { batches },
    };
    let request = v1::ProposeRequest {
        command: codec::encode(&command).expect("bytes").into(),
        asker: None,
    };
    let before = server.cluster().status().last_index;
    let mut proposed = pin!(forward.propose(request));
    assert!(poll!(&mut proposed).is_pending());
    let waits = updates.waiting.try_recv().expect("it is in the queue");
    assert_eq!(waits.group.source, Source::Server);
    assert_eq!((waits.group.batches.len(), waits.count), (2, 2));
    assert_eq!(server.cluster().status().last_index, before);
    server.shutdown().await;
}
