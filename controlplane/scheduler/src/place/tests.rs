//! The field that is kept from placement to placement tells the same as one made anew.

use hack_testkit::{World, jobs, nodes};
use proptest::prelude::*;
use protocol_model::{
    Affinity, Constraint, JobType, RescheduleEvent, RescheduleTracker, Spread, SpreadTarget,
};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// Places one, which failed on these nodes before.
    Place(Vec<u8>),
    /// One of those that were placed makes way, and stays after all or not.
    Move { pick: usize, stays: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec(1..11u8, 0..3).prop_map(Step::Place),
        1 => (0..20usize, any::<bool>()).prop_map(|(pick, stays)| Step::Move { pick, stays }),
    ]
}

/// Ten nodes in two racks, one of which is not feasible, and one small.
fn world() -> World {
    let mut world = World::new();
    for number in 1..=10u8 {
        let mut node = nodes::node(number);
        let rack = if number % 2 == 0 { "even" } else { "odd" };
        node.meta.insert("rack".to_owned(), rack.to_owned());
        node.meta.insert("num".to_owned(), number.to_string());
        node.computed_class = format!("{rack}-{number}");
        node.node_class = rack.to_owned();
        match number {
            5 => node.drivers.clear(),
            6 => node.node_resources.cpu.cpu_shares = 250,
            _ => {}
        }
        world.add_node(node);
    }
    world
}

fn constraint(left: &str, operand: &str, right: &str) -> Constraint {
    Constraint {
        l_target: left.to_owned(),
        operand: operand.to_owned(),
        r_target: right.to_owned(),
    }
}

fn job(distinct: Option<Constraint>, spreads: Vec<Spread>) -> Job {
    let mut job = jobs::draft(JobType::Service, "web", 10);
    job.constraints.extend(distinct);
    job.task_groups[0].spreads = spreads;
    job.affinities.push(Affinity {
        l_target: "${meta.rack}".to_owned(),
        r_target: "odd".to_owned(),
        operand: "=".to_owned(),
        weight: Some(40),
    });
    job.canonicalize();
    job
}

fn distinct() -> impl Strategy<Value = Option<Constraint>> {
    prop_oneof![
        Just(None),
        Just(Some(constraint("", "distinct_hosts", "true"))),
        ("rack|num", 1..6u8).prop_map(|(property, count)| Some(constraint(
            &format!("${{meta.{property}}}"),
            "distinct_property",
            &count.to_string()
        ))),
    ]
}

/// None, or one or two over racks and numbers, even or with a target.
fn spreads() -> impl Strategy<Value = Vec<Spread>> {
    let target = prop_oneof![
        Just(Vec::new()),
        (0..101i32).prop_map(|percent| vec![SpreadTarget {
            value: "odd".to_owned(),
            percent
        }])
    ];
    let one =
        ("rack|num", 1..101i32, target).prop_map(|(property, weight, spread_target)| Spread {
            attribute: format!("${{meta.{property}}}"),
            weight: Some(weight),
            spread_target,
        });
    prop::collection::vec(one, 0..3)
}

fn wanted(failed_on: &[u8]) -> Wanted {
    let events = failed_on.iter().map(|number| RescheduleEvent {
        reschedule_time: Default::default(),
        prev_alloc_id: protocol_model::AllocId::from_u128(1),
        prev_node_id: nodes::node(*number).id,
        delay: Default::default(),
    });
    Wanted {
        penalized: true,
        tracker: Some(RescheduleTracker {
            events: events.collect(),
        }),
        ..Wanted::new("web.group[0]".to_owned())
    }
}

/// An explanation, ties aside: its numbers, and the best scores.
fn without_ties(mut metrics: AllocMetric) -> (AllocMetric, Vec<f64>) {
    let scores = std::mem::take(&mut metrics.score_meta_data);
    let norms = scores.iter().map(|it| it.norm_score).collect();
    (metrics, norms)
}

#[test]
fn what_is_used_up_concerns_only_those_who_have_it() {
    let snapshot = world().snapshot();
    let job = job(
        Some(constraint("${meta.num}", "distinct_property", "1")),
        Vec::new(),
    );
    let group = &job.task_groups[0];
    let standing = Standing {
        leaving: &BTreeSet::new(),
        placed: &[],
    };
    let mut placer = Placer::new(&snapshot, &job, group, standing);
    let (mut overlay, mut ids, mut scratch) =
        (Overlay::default(), Seeded::new([1; 16]), Scratch::new());
    for number in 1..=8u8 {
        let mut tools = Tools {
            overlay: &mut overlay,
            ids: &mut ids,
            scratch: &mut scratch,
        };
        let placement = placer
            .place(&wanted(&[]), Evicting::Never, &mut tools)
            .expect("one is left");
        let field = placer.field.as_ref().expect("the field is kept");
        assert_eq!(field.judged_again(), u32::from(number) - 1);
        let id = protocol_model::AllocId::from_u128(u128::from(number));
        let mut alloc = hack_testkit::allocs::bare(id, placement.node.id);
        alloc.task_group.clone_from(&group.name);
        placer.placed(&alloc);
    }
}

proptest! {
    #[test]
    fn a_kept_field_is_as_good_as_a_new_one(
        distinct in distinct(),
        spreads in spreads(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let snapshot = world().snapshot();
        let job = job(distinct, spreads);
        let group = &job.task_groups[0];
        let standing = Standing { leaving: &BTreeSet::new(), placed: &[] };
        let mut placer = Placer::new(&snapshot, &job, group, standing);
        let (mut overlay, mut ids, mut scratch) =
            (Overlay::default(), Seeded::new([1; 16]), Scratch::new());
        let mut placed: Vec<Allocation> = Vec::new();
        for step in steps {
            let mut tools = Tools { overlay: &mut overlay, ids: &mut ids, scratch: &mut scratch };
            match step {
                Step::Place(failed_on) => {
                    let wanted = wanted(&failed_on);
                    let past = super::Past::of(&wanted);
                    let mut field = placer.make_field(None, &past, &mut tools);
                    let (_, anew) = field.best(|cell| placer.spreads.score(cell));
                    let told = match placer.place(&wanted, Evicting::Never, &mut tools) {
                        Ok(placement) => {
                            let id = protocol_model::AllocId(tools.ids.next_id());
                            let mut alloc = hack_testkit::allocs::bare(id, placement.node.id);
                            alloc.task_group.clone_from(&group.name);
                            alloc.allocated_resources = placement.resources.into();
                            placer.placed(&alloc);
                            placed.push(alloc);
                            placement.metrics
                        }
                        Err(metrics) => *metrics,
                    };
                    prop_assert_eq!(without_ties(told), without_ties(anew));
                }
                Step::Move { pick, stays } if !placed.is_empty() => {
                    let at = pick % placed.len();
                    placer.make_way(&placed[at], tools.overlay);
                    if stays {
                        placer.stay(&placed[at], tools.overlay);
                    } else {
                        placed.swap_remove(at);
                    }
                }
                Step::Move { .. } => {}
            }
        }
    }
}
