//! What stays of what was written.

use super::*;

fn platters() -> Platters {
    Platters::new(Rng::new(7, 7))
}

fn content(platters: &Platters, path: &str) -> Vec<u8> {
    platters.mount().read(Path::new(path)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_was_synced_stays_and_what_was_not_is_in_doubt() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..32 {
        let platters = Platters::new(Rng::new(seed, 7));
        let disk = platters.mount();
        let file = disk.open(Path::new("/f"), Opening::New).unwrap();
        file.append(&[1; 2000], 0).await.unwrap();
        file.write_at(&[2; 2000], 0).unwrap();
        platters.cut_power();
        assert!(file.write_at(&[3], 0).is_err(), "that life is over");
        let left = content(&platters, "/f");
        assert!(left.iter().all(|byte| [1, 2].contains(byte)));
        outcomes.insert((
            left[0],
            left[1999],
            left.iter().all(|byte| *byte == left[0]),
        ));
    }
    assert!(outcomes.contains(&(1, 1, true)), "all of it may be lost");
    assert!(outcomes.contains(&(2, 2, true)), "or nothing");
    assert!(outcomes.iter().any(|(_, _, whole)| !whole), "or be torn");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_leaves_what_it_wrote_and_a_liar_keeps_nothing() {
    for (lies, kept) in [(false, true), (true, false)] {
        let mut all_kept = true;
        for seed in 0..16 {
            let platters = Platters::new(Rng::new(seed, 7));
            platters.behave(|manners| manners.lies = lies);
            let file = platters
                .mount()
                .open(Path::new("/f"), Opening::New)
                .unwrap();
            file.append(b"acknowledged", 0).await.unwrap();
            platters.detach();
            assert_eq!(content(&platters, "/f"), b"acknowledged");
            platters.cut_power();
            all_kept &= content(&platters, "/f") == b"acknowledged";
        }
        assert_eq!(all_kept, kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_torn_write_is_the_last_of_its_machine() {
    let platters = platters();
    let disk = platters.mount();
    let file = disk.open(Path::new("/f"), Opening::New).unwrap();
    platters.behave(|manners| manners.tears_next = true);
    assert!(file.append(&[1; 100], 0).await.is_err());
    assert!(platters.is_torn());
    disk.list(Path::new("/")).unwrap_err();
    assert!(content(&platters, "/f").len() <= 100);
    assert!(!platters.is_torn(), "it was started again");
}
