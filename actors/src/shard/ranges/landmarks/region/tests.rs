//! The tree of landmarks against an ordered map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Branch, Leaf, RangeHandle, Region, release, set};

type Top = Branch<Branch<Leaf>>;

/// Blocks near each other and far apart.
fn blocks() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, 3_900..4_300_u64, 0..Top::BLOCKS]
}

proptest! {
    #[test]
    fn a_tree_finds_what_an_ordered_map_finds(
        steps in prop::collection::vec((blocks(), 0..3_u32, blocks()), 1..200),
    ) {
        let mut tree: Option<Box<Top>> = None;
        let mut bytes = 0;
        let mut model: BTreeMap<u64, RangeHandle> = BTreeMap::new();
        for (number, (block, action, other)) in (0..).zip(steps) {
            match action {
                0 => {
                    set(&mut tree, block, RangeHandle(number), &mut bytes);
                    model.insert(block, RangeHandle(number));
                }
                1 => {
                    let nearest = model.range(block..).next().map_or(block, |(block, _)| *block);
                    set(&mut tree, nearest, RangeHandle::NONE, &mut bytes);
                    model.remove(&nearest);
                }
                _ => release(&mut tree, block.min(other), block.max(other), &mut bytes),
            }
            let found = tree.as_ref().and_then(|tree| tree.last_up_to(other));
            let expected = model.range(..=other).next_back();
            prop_assert!(found == expected.map(|(block, handle)| (*block, *handle)));
            let at = tree.as_ref().and_then(|tree| tree.at(other).some());
            prop_assert!(at == model.get(&other).copied());
        }
        let mut all = Vec::new();
        if let Some(tree) = &tree {
            tree.gather(0, &mut all);
        }
        prop_assert!(all == model.into_iter().collect::<Vec<_>>());
        for (block, _) in all {
            set(&mut tree, block, RangeHandle::NONE, &mut bytes);
        }
        release(&mut tree, 0, 0, &mut bytes);
        prop_assert!(tree.is_none() && bytes == 0, "what is empty gives its memory back");
    }
}
