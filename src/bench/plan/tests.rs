use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    run: RunArgs,
}

fn plan(flags: &[&str]) -> Result<Plan, String> {
    let line = Line::try_parse_from([&["bench"], flags].concat()).unwrap();
    Plan::new(&line.run)
}

#[test]
fn the_production_preset_is_puts_beside_gets_in_an_open_loop() {
    let plan = plan(&["--preset", "production", "--segment-bytes", "1GiB"]).unwrap();
    let seen: Vec<(Operation, u32, Option<f64>)> =
        plan.lanes.iter().map(|lane| (lane.operation, lane.batch, lane.rate)).collect();
    let expected = [(Operation::Put, 64, Some(9_300.0)), (Operation::Get, 128, Some(64_000.0))];
    assert_eq!(seen, expected);
    // 12 segments of 4,096 objects, of which 88 % are there.
    assert_eq!((plan.fill, plan.keys), (43_208, 43_208));
}

#[test]
fn the_published_preset_gives_way_to_flags() {
    let published = plan(&["--preset", "published", "--operation", "put"]).unwrap();
    let lane = &published.lanes[0];
    assert_eq!((lane.batch, lane.connections, lane.in_flight), (4096, 8, 4));
    assert_eq!(published.segments, 16);
    let given = plan(&["--preset", "published", "--batch", "7", "--segments", "2"]).unwrap();
    assert_eq!((given.lanes[0].batch, given.segments), (7, 2));
}

#[test]
fn only_what_works_on_keys_that_are_there_fills_before() {
    for (operation, fill) in [("put", 0), ("fill", 0), ("get", 500), ("churn", 500)] {
        let plan = plan(&["--operation", operation, "--keys", "500"]).unwrap();
        assert_eq!(plan.fill, fill, "{operation}");
    }
    let plan = plan(&["--operation", "get", "--no-fill"]).unwrap();
    assert_eq!((plan.fill, plan.segments, plan.keys), (0, 0, KEYS));
}

#[test]
fn more_keys_than_there_is_room_for_are_refused() {
    let error = plan(&["--keys", "5", "--segments", "1", "--segment-bytes", "1MiB"]).unwrap_err();
    assert!(error.contains("--keys 5") && error.contains("room for 4"), "{error}");
}
