//! What is on the screen, drawn on a terminal that is only memory.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::text::Text;
use ratatui::widgets::Paragraph;

use super::frame::{Size, frame};
use super::status::{Client, Connections, Handoff, Operation, Segment, Shard, Status, Totals};
use super::tables::Kind;
use super::view::{Key, Next, Screen, View};

fn segment(slot: u64, used_percent: u64) -> Segment {
    Segment {
        slot,
        segment: format!("segment-{slot}"),
        client: format!("client-{}", slot % 3),
        endpoint: format!("10.0.0.{slot}:9100"),
        state: "open".to_owned(),
        size_bytes: 100 << 30,
        allocated_bytes: used_percent << 30,
        largest_free_run_bytes: 1 << 30,
        spans: 7,
        ..Segment::default()
    }
}

fn client(number: u64) -> Client {
    Client {
        client: format!("client-{number}"),
        name: format!("store on host {number}"),
        state: "active".to_owned(),
        silent_ms: number * 100,
        segments: 2,
    }
}

fn status(uptime_s: f64) -> Status {
    let gets = (uptime_s * 1_000.0) as u64;
    Status {
        version: "0.1.0".to_owned(),
        pid: 42,
        state: "serving".to_owned(),
        uptime_s,
        cpu_s: uptime_s / 4.0,
        resident_bytes: 3 << 30,
        connections: Connections { quic: Some(5), mooncake: 1 },
        certificate_days_left: Some(300.0),
        operations: vec![Operation {
            front_end: "quic".to_owned(),
            operation: "Get".to_owned(),
            requests: gets / 100,
            items: gets,
            failures: 0,
            durations_us: vec![(80.0, gets / 100)],
        }],
        totals: Some(Totals {
            objects: 12_000_000,
            capacity_bytes: 300 << 30,
            allocated_bytes: 150 << 30,
            held_bytes: 3 << 30,
            gets,
            get_hits: gets / 2,
            ..Totals::default()
        }),
        shards: vec![Shard { objects: Some(12_000_000), ..Shard::default() }],
        segments: vec![segment(0, 50), segment(1, 97), segment(2, 10)],
        clients: vec![client(0), client(1), client(2)],
        ..Status::default()
    }
}

fn view() -> View {
    let mut view = View::new("127.0.0.1:9003".to_owned());
    view.take(Ok(status(10.0)));
    view.take(Ok(status(12.0)));
    view
}

/// What the terminal shows, line by line.
fn drawn(view: &View, columns: u16, lines: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal
        .draw(|screen| {
            let area = screen.area();
            let size = Size { columns: columns.into(), lines: Some(lines.into()) };
            screen.render_widget(Paragraph::new(Text::from(frame(view, size))), area);
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..lines).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(view: &mut View, keys: &[Key]) {
    for key in keys {
        assert_eq!(view.press(*key), Next::GoOn, "{key:?}");
    }
}

#[track_caller]
fn assert_shows(screen: &[String], text: &str) {
    assert!(screen.iter().any(|line| line.contains(text)), "{text:?} is not in\n{screen:#?}");
}

#[test]
fn an_ordinary_terminal_shows_rates_memory_and_every_table() {
    let screen = drawn(&view(), 80, 24);
    for text in [
        "mooring 127.0.0.1:9003  serving  up 12s  pid 42",
        "get 1.00k",
        "hit 50.0%",
        "51.0% of 300G",
        "quic Get",
        "80.0us",
        "1 store on host 1",
        "97.0%",
        "SHARD↑",
        "USED↓",
        "store on host 2",
        "q quit",
    ] {
        assert_shows(&screen, text);
    }
    for title in ["OPERATION", "SHARD", "SEGMENT", "CLIENT"] {
        assert_shows(&screen, title);
    }
}

#[test]
fn the_fullest_segment_is_first_until_another_order_is_chosen() {
    let mut view = view();
    let order = |view: &View| {
        view.rows(Kind::Segments).iter().map(|row| row.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(order(&view), ["segment-1", "segment-0", "segment-2"]);
    press(&mut view, &[Key::Letter('r')]);
    assert_eq!(order(&view), ["segment-2", "segment-0", "segment-1"]);
    press(&mut view, &[Key::Letter('<'), Key::Letter('<'), Key::Letter('<')]);
    assert_eq!(order(&view), ["segment-0", "segment-1", "segment-2"], "by name");
}

#[test]
fn a_selected_row_stays_selected_when_others_come_before_it() {
    let mut view = view();
    press(&mut view, &[Key::Down]);
    let mut later = status(13.0);
    later.segments.push(segment(3, 99));
    view.take(Ok(later));
    let rows = view.rows(Kind::Segments);
    assert_eq!(rows[view.selected(Kind::Segments, &rows)].id, "segment-0");
    press(&mut view, &[Key::Home, Key::Up]);
    let rows = view.rows(Kind::Segments);
    assert_eq!(view.selected(Kind::Segments, &rows), 0);
}

#[test]
fn a_segment_and_a_client_are_opened_and_left_again() {
    let mut view = view();
    press(&mut view, &[Key::Enter]);
    assert_eq!(view.screen, Screen::Segment("segment-1".to_owned()));
    let screen = drawn(&view, 80, 24);
    assert_shows(&screen, "endpoint       10.0.0.1:9100");
    assert_shows(&screen, "owner          client-1 store on host 1");
    press(&mut view, &[Key::Escape, Key::Tab, Key::End, Key::Enter]);
    let Screen::Client(id) = view.screen.clone() else { panic!("{:?}", view.screen) };
    let screen = drawn(&view, 80, 24);
    assert_shows(&screen, &format!("id             {id}"));
    press(&mut view, &[Key::Escape]);
    assert_eq!(view.press(Key::Escape), Next::Quit);
}

#[test]
fn what_is_open_and_goes_says_so() {
    let mut view = view();
    press(&mut view, &[Key::Enter]);
    let without = Status { segments: Vec::new(), ..status(13.0) };
    view.take(Ok(without));
    assert_shows(&drawn(&view, 80, 24), "the segment segment-1 is not there any more");
}

#[test]
fn a_master_that_is_gone_is_told_and_its_figures_are_said_to_be_old() {
    let mut view = view();
    view.take(Err("Connection refused".to_owned()));
    view.take(Err("Connection refused".to_owned()));
    let screen = drawn(&view, 100, 24);
    assert_shows(&screen, "no answer (asked 2 times; the figures are old): Connection refused");
    assert_shows(&screen, "gone");
    assert_shows(&screen, "put -");
    view.take(Ok(Status { pid: 43, ..status(1.0) }));
    let screen = drawn(&view, 100, 24);
    assert_shows(&screen, "pid 43");
    assert_shows(&screen, "put -");
    assert!(!screen.iter().any(|line| line.contains("no answer")), "{screen:#?}");
}

#[test]
fn before_the_first_answer_there_is_a_screen() {
    let mut view = View::new("host:9003".to_owned());
    assert_shows(&drawn(&view, 80, 24), "asking...");
    press(&mut view, &[Key::Down, Key::Enter, Key::Letter('s'), Key::Tab]);
    view.take(Err("no route".to_owned()));
    assert_shows(&drawn(&view, 80, 24), "no answer (asked once): no route");
}

#[test]
fn a_master_that_does_not_serve_yet_says_why() {
    let mut view = View::new("host:9003".to_owned());
    let restoring = Status {
        state: "restoring".to_owned(),
        reason: Some("the master is restoring the index".to_owned()),
        handoff: Some(Handoff { ranges_laid: 1, ranges_expected: 4, ..Handoff::default() }),
        ..Status::default()
    };
    view.take(Ok(restoring));
    let screen = drawn(&view, 80, 24);
    assert_shows(&screen, "restoring");
    assert_shows(&screen, "the master is restoring the index");
    assert_shows(&screen, "restoring, 25.0%");
    assert_shows(&screen, "no segments: no store has mounted memory");
}

#[test]
fn a_handoff_tells_how_it_went_and_what_is_pending() {
    let mut view = view();
    let mut later = status(13.0);
    later.segments[0].state = "pending".to_owned();
    later.handoff = Some(Handoff {
        last_shutdown: Some("ok".to_owned()),
        restore: Some("ok".to_owned()),
        restored_objects: 12_000_000,
        restore_s: 1.3,
        ..Handoff::default()
    });
    view.take(Ok(later));
    let screen = drawn(&view, 80, 30);
    assert_shows(&screen, "restored 12.0M objects in 1.3s");
    assert_shows(&screen, "segments pending 1");
}

#[test]
fn a_shard_that_does_not_answer_still_has_a_queue() {
    let mut view = view();
    let mut later = status(13.0);
    later.totals = None;
    later.segments = Vec::new();
    later.lacking = vec!["shards or pool".to_owned()];
    later.shards = vec![Shard { queue: 17, oldest_ms: 4_000, ..Shard::default() }];
    view.take(Ok(later));
    let screen = drawn(&view, 80, 24);
    assert_shows(&screen, "no answer from: shards or pool");
    assert_shows(&screen, "4.00s");
    assert_shows(&screen, "get -");
    assert_shows(&screen, "all -");
    assert!(!screen.iter().any(|line| line.contains("no store has mounted")), "{screen:#?}");
    view.take(Ok(status(14.0)));
    assert_shows(&drawn(&view, 80, 24), "get -");
}

/// A put that is refused is what somebody looks for first.
#[test]
fn an_ordinary_terminal_has_room_for_what_is_wrong() {
    let mut view = view();
    let mut full = status(13.0);
    let totals = full.totals.as_mut().unwrap();
    (totals.put_refused, totals.put_ends, totals.parked_puts) = (123_456, 234_567, 99_999);
    (totals.leased_bytes, totals.held_bytes) = (123 << 30, 45 << 30);
    view.take(Ok(full));
    let screen = drawn(&view, 80, 24);
    for text in ["no space 123k", "put 235k", "parked 100k", "leased 123G", "held 45.0G"] {
        assert_shows(&screen, text);
    }
    assert!(!screen.iter().any(|line| line.ends_with('~')), "{screen:#?}");
    let worrying = |text: &str| {
        let lines = frame(&view, Size { columns: 80, lines: Some(24) });
        let spans = lines.into_iter().flat_map(|line| line.spans);
        spans.into_iter().find(|span| span.content.contains(text)).unwrap().style
    };
    assert_eq!(worrying("no space"), super::tables::WARNING);
    assert_ne!(worrying("put 235k"), super::tables::WARNING);
}

#[test]
fn a_segment_without_a_name_has_that_of_its_store_and_else_its_address() {
    let mut view = view();
    let mut other = status(13.0);
    other.segments[0].name = Some("engine:7".to_owned());
    other.segments[1].client = "client-of-long-ago".to_owned();
    view.take(Ok(other));
    let screen = drawn(&view, 80, 24);
    for text in ["0 engine:7", "1 10.0.0.1:9100", "2 store on host 2"] {
        assert_shows(&screen, text);
    }
}

#[test]
fn a_certificate_that_runs_out_soon_is_told() {
    let mut view = view();
    view.take(Ok(Status { certificate_days_left: Some(2.5), ..status(13.0) }));
    assert_shows(&drawn(&view, 80, 24), "the certificate runs out in 2.5 days");
    view.take(Ok(Status { certificate_days_left: Some(-1.0), ..status(14.0) }));
    assert_shows(&drawn(&view, 80, 24), "has run out");
}

#[test]
fn nothing_changes_while_it_is_paused() {
    let mut view = view();
    press(&mut view, &[Key::Letter('p')]);
    view.take(Ok(status(99.0)));
    let screen = drawn(&view, 80, 24);
    assert_shows(&screen, "PAUSED");
    assert_shows(&screen, "up 12s");
    press(&mut view, &[Key::Letter('p')]);
    view.take(Ok(status(99.0)));
    assert_shows(&drawn(&view, 80, 24), "up 1m39s");
}

#[test]
fn help_fits_into_an_ordinary_terminal_and_names_every_key() {
    let mut view = view();
    press(&mut view, &[Key::Letter('?')]);
    let screen = drawn(&view, 80, 24);
    for key in ["q, Esc", "Tab", "Enter", "another column", "pause", "quarantined", "TTL"] {
        assert_shows(&screen, key);
    }
    assert!(!screen.iter().any(|line| line.ends_with('~')), "{screen:#?}");
    press(&mut view, &[Key::Letter('?')]);
    assert_eq!(view.screen, Screen::Overview);
}

#[test]
fn any_size_is_drawn_without_a_line_too_many_or_too_long() {
    let mut view = view();
    let mut many = status(13.0);
    many.segments = (0..500).map(|slot| segment(slot, slot % 100)).collect();
    many.clients = (0..500).map(client).collect();
    many.clients[0].name = "\u{1b}[2J\u{202e}日本語のとても長い名前".repeat(9);
    view.take(Ok(many));
    for keys in [&[][..], &[Key::End], &[Key::Enter], &[Key::Escape, Key::Letter('?')]] {
        press(&mut view, keys);
        for (columns, lines) in [(0, 0), (1, 1), (9, 3), (20, 9), (40, 12), (79, 23), (240, 70)] {
            let size = Size { columns, lines: Some(lines) };
            let frame = frame(&view, size);
            assert!(frame.len() <= lines, "{} lines in {size:?}", frame.len());
            for line in frame {
                assert!(line.width() <= columns, "{line:?} in {size:?}");
            }
        }
    }
}

#[test]
fn the_selected_row_is_always_on_the_screen() {
    let mut view = view();
    let mut many = status(13.0);
    many.segments = (0..200).map(|slot| segment(slot, slot % 100)).collect();
    view.take(Ok(many));
    for lines in [12, 24, 40] {
        press(&mut view, &[Key::Home]);
        for _ in 0..20 {
            let rows = view.rows(Kind::Segments);
            let name = rows[view.selected(Kind::Segments, &rows)].cells[0].shown.clone();
            assert_shows(&drawn(&view, 80, lines), &format!(" {name} "));
            press(&mut view, &[Key::PageDown]);
        }
    }
}

#[test]
fn a_narrow_terminal_keeps_the_names_and_what_is_used() {
    let screen = drawn(&view(), 40, 24);
    assert_shows(&screen, "1 store on host 1");
    assert_shows(&screen, "97.0%");
    assert!(!screen.iter().any(|line| line.contains("SPANS")), "{screen:#?}");
    assert_shows(&drawn(&view(), 120, 40), "SPANS");
}

#[test]
fn a_frame_for_a_pipe_has_every_row_and_no_keys() {
    let mut view = view();
    let mut many = status(13.0);
    many.segments = (0..50).map(|slot| segment(slot, slot)).collect();
    view.take(Ok(many));
    let lines: Vec<String> =
        frame(&view, Size { columns: 80, lines: None }).iter().map(ToString::to_string).collect();
    for slot in 0..50 {
        assert_shows(&lines, &format!(" {slot} store on host {} ", slot % 3));
    }
    assert!(!lines.iter().any(|line| line.contains("q quit")));
}
