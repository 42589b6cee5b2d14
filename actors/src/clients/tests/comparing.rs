//! What a client says of its segments against what is known of them here.

use super::*;

// The answer to a mount got lost, and the client has given it up.
#[test]
fn a_client_that_does_not_know_of_a_segment_must_list_what_it_has() {
    let mut stage = Stage::new();
    stage.hear(mounted(ClientId(1), 2));
    assert!(!stage.ping(1, 1), "the answer may have crossed the ping");
    assert!(stage.ping(1, 1));
    stage.hear(ClientsMessage::Remounted { client: ClientId(1), segments: 1 });
    assert!(stage.ping(1, 1), "the one that it does not name is there still");
    assert!(!stage.ping(1, 2));
    assert!(!stage.ping(1, 1), "anew");
    stage.hear(mounted(ClientId(1), 1));
    assert!(!stage.ping(1, 1));
}

// The answer to an unmount, or the refusal of a remount, got lost.
#[test]
fn a_client_that_believes_in_a_segment_that_is_gone_must_list_what_it_has() {
    let mut stage = Stage::new();
    stage.hear(mounted(ClientId(1), 2));
    assert!(!stage.ping(1, 2));
    stage.hear(mounted(ClientId(1), 1));
    assert!(!stage.ping(1, 2), "an unmount may have overtaken the ping");
    assert!(stage.ping(1, 2));
    stage.remount(1, 2);
    assert!(!stage.ping(1, 2) && !stage.ping(1, 2));
}

#[test]
fn as_many_segments_but_others_must_be_listed_whoever_has_the_new_one() {
    for (here, there) in [([1, 2], [1, 3]), ([1, 3], [1, 2])] {
        let mut stage = Stage::new();
        stage.hear(mounted_exactly(ClientId(1), &here));
        assert!(!stage.ping_keeping(1, &there), "an answer may have crossed the ping");
        assert!(stage.ping_keeping(1, &there));
        stage.hear(mounted_exactly(ClientId(1), &there));
        stage.hear(ClientsMessage::Remounted { client: ClientId(1), segments: 2 });
        assert!(!stage.ping_keeping(1, &there) && !stage.ping_keeping(1, &there));
    }
}

#[test]
fn the_order_in_which_segments_were_mounted_says_nothing() {
    let mut stage = Stage::new();
    stage.hear(mounted_exactly(ClientId(1), &[3, 1, 2]));
    assert!(!stage.ping_keeping(1, &[2, 3, 1]) && !stage.ping_keeping(1, &[1, 2, 3]));
}

// One that is about to go is counted by its owner until it is gone.
#[test]
fn a_client_need_not_list_what_both_know_to_be_on_its_way_out() {
    let mut stage = Stage::new();
    let kept = digest(&[1]);
    stage.hear(ClientsMessage::Mounted { client: ClientId(1), segments: 2, kept });
    for _ in 0..3 {
        assert!(!stage.ping_with(1, 2, Some(kept)) && !stage.ping_with(1, 1, Some(kept)));
    }
}

// A client of Mooncake.
#[test]
fn a_client_that_does_not_say_which_segments_it_keeps_is_believed() {
    let mut stage = Stage::new();
    stage.hear(ClientsMessage::Mounted { client: ClientId(1), segments: 2, kept: digest(&[]) });
    for segments in [2, 1, 0, 3] {
        assert!(!stage.ping_with(1, segments, None) && !stage.ping_with(1, segments, None));
    }
}
