use super::super::bulk::BuiltIndex;
use super::*;

/// An index built at once in so many shares, and the handles that were told to share a tag.
fn built(
    entries: &[(u32, u32)],
    expected: usize,
    shares: usize,
) -> (Index, BTreeSet<BTreeSet<u32>>) {
    let mut builder = IndexBuilder::with_capacity(expected);
    for (tag, raw) in entries {
        builder.add(*tag, handle(*raw));
    }
    builder.build(shares, |shares| {
        // Whichever thread is done first.
        shares.into_iter().rev().map(IndexShare::build).collect()
    });
    let BuiltIndex { index, same_tag } = builder.finish();
    let runs = same_tag.chunk_by(Slot::has_tag_of);
    (index, runs.map(|run| run.iter().map(|slot| slot.handle.0).collect()).collect())
}

fn inserted(entries: &[(u32, u32)]) -> Index {
    let mut index = Index::new();
    entries.iter().for_each(|(tag, raw)| index.insert(*tag, handle(*raw)));
    index
}

/// That both have the same handles for each tag, and a built one tells all tags with several.
fn compare(entries: &[(u32, u32)]) -> Index {
    let (index, told) = built(entries, entries.len(), 2);
    index.check();
    assert_eq!(index.len(), entries.len());
    let mut model = Model::new();
    for (tag, raw) in entries {
        model.entry(*tag).or_default().insert(*raw);
    }
    for (tag, handles) in &model {
        assert_eq!(index.handles(*tag), *handles);
    }
    let several = model.into_values().filter(|handles| handles.len() > 1);
    assert_eq!(told, several.collect());
    index
}

/// As many as make one page more or less than each part needs for one of its own.
const PARTS_FILLED: u32 = (GROUP_PAGES * SPLIT_LIVE) as u32;

#[test]
fn an_index_built_at_once_holds_what_one_built_by_insertions_does() {
    for count in [0, 1, 2, 799, 5000, PARTS_FILLED - 800, PARTS_FILLED - 799, 300_000, 450_001] {
        let entries: Vec<_> = (0..count).map(|number| (scatter(number), number)).collect();
        let index = compare(&entries);
        let other = inserted(&entries);
        assert_eq!(index.len(), other.len());
        assert!(index.pages.abs_diff(other.pages) <= 1 + other.pages / 100);
        assert!(index.memory_bytes() <= other.memory_bytes() + other.memory_bytes() / 20 + 1024);
    }
}

#[test]
fn it_goes_on_growing_and_shrinking_like_another() {
    let entries: Vec<_> = (0..250_000).map(|number| (scatter(number), number)).collect();
    let mut index = compare(&entries);
    for number in 250_000..500_000 {
        index.insert(scatter(number), handle(number));
        assert!(index.moved <= 4096, "an insertion moves a page at most, not {}", index.moved);
    }
    index.check();
    for number in 0..500_000 {
        assert_eq!(index.find(scatter(number), |found| found.0 == number), Some(handle(number)));
    }
    for number in 0..499_000 {
        assert!(index.remove(scatter(number), handle(number)));
    }
    index.check();
    assert_eq!(index.len(), 1000);
    assert!(index.memory_bytes() < 64 * 1024);
}

#[test]
fn tags_that_fall_together_are_all_there() {
    // All in one page, all with one tag, all at the end of their page, and all of these among others.
    let one_page = |number: u32| number << 16;
    let one_tag = |_| 0xDEAD_BEEF;
    let at_the_end = |number: u32| u32::MAX - ((number % 7) << 9);
    for mixed in [one_page, one_tag, at_the_end] {
        for others in [0, 260_000] {
            let crowd = (0..3000).map(|number| (mixed(number), number));
            let rest = (0..others).map(|number| (scatter(number), 10_000 + number));
            compare(&crowd.chain(rest).collect::<Vec<_>>());
        }
    }
}

#[test]
fn any_guess_of_the_number_of_objects_will_do() {
    let entries: Vec<_> = (0..210_000).map(|number| (scatter(number), number)).collect();
    for expected in [0, 1000, 2_000_000] {
        let (index, _) = built(&entries, expected, 1);
        index.check();
        assert_eq!(index.len(), entries.len());
    }
}

#[test]
fn any_number_of_shares_makes_the_same_index() {
    let entries: Vec<_> = (0..210_000).map(|number| (scatter(number), number)).collect();
    let (one, _) = built(&entries, entries.len(), 1);
    for shares in [0, 2, 3, 7, 256, 1000] {
        let (index, _) = built(&entries, entries.len(), shares);
        index.check();
        assert_eq!(index.len(), entries.len());
        assert_eq!(index.memory_bytes(), one.memory_bytes());
        for (tag, raw) in &entries {
            assert_eq!(index.find(*tag, |found| found.0 == *raw), Some(handle(*raw)));
        }
    }
}
