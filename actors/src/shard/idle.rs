//! For how long an object was idle before a restart, coarsely enough to fit its record.

/// A class of idle times: 32 for each doubling, so that the order of eviction is kept to within a
/// thirty-second of an object's idle time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct IdleClass(pub(super) u16);

impl IdleClass {
    /// Not idle at all, or accessed since the restart.
    pub(crate) const NONE: IdleClass = IdleClass(0);

    /// Bits of a class: enough for idle times of two years.
    pub(crate) const BITS: u32 = 10;

    /// How many classes there are.
    pub(crate) const COUNT: usize = 1 << IdleClass::BITS;

    /// The class of an idle time. Those of more than two years are all in the last one.
    pub(crate) fn of_ms(idle_ms: u64) -> IdleClass {
        if idle_ms < STEPS {
            return IdleClass(idle_ms as u16);
        }
        let doublings = u64::from(idle_ms.ilog2() - STEP_BITS);
        let step = (idle_ms >> doublings) % STEPS;
        let class = (doublings + 1) * STEPS + step;
        IdleClass(class.min(IdleClass::COUNT as u64 - 1) as u16)
    }

    /// The shortest idle time of the class.
    pub(crate) fn as_ms(self) -> u64 {
        let (doublings, step) = (u64::from(self.0) / STEPS, u64::from(self.0) % STEPS);
        match doublings.checked_sub(1) {
            None => step,
            Some(doublings) => (STEPS + step) << doublings,
        }
    }

    /// Its place among all classes, the shortest times first.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Classes for each doubling.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_begins_at_its_shortest_time_and_classes_are_in_order() {
        for class in 0..IdleClass::COUNT as u16 {
            let class = IdleClass(class);
            assert_eq!(IdleClass::of_ms(class.as_ms()), class);
            if let Some(below_ms) = class.as_ms().checked_sub(1) {
                assert_eq!(IdleClass::of_ms(below_ms), IdleClass(class.0 - 1));
            }
        }
        assert_eq!(IdleClass::of_ms(u64::MAX).index(), IdleClass::COUNT - 1);
    }

    #[test]
    fn a_class_is_within_a_thirty_second_of_the_time() {
        for idle_ms in [1, 31, 32, 33, 1_000, 3_600_000, 86_400_000, 31_536_000_000_u64] {
            let class_ms = IdleClass::of_ms(idle_ms).as_ms();
            assert!(class_ms <= idle_ms && idle_ms - class_ms <= idle_ms / 32, "{idle_ms}");
        }
    }
}
