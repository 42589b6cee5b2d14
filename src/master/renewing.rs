//! Reading certificates again while a master serves.

use std::pin::Pin;

use super::signals::Asked;

/// Reads anew what a signal asks for, beside, and takes it when it is there, until the master is told to
/// leave: what is read then is dropped. Signals that come while it is read ask for it once more.
pub(super) async fn until_told<T, R: Future>(
    target: &mut T,
    mut next: impl AsyncFnMut() -> Asked,
    read: impl Fn(&T) -> Option<Pin<Box<R>>>,
    mut take: impl FnMut(&mut T, R::Output),
) {
    let mut reading: Option<Pin<Box<R>>> = None;
    let mut again = false;
    loop {
        tokio::select! {
            asked = next() => match asked {
                Asked::Leave => return,
                Asked::Reload if reading.is_some() => again = true,
                Asked::Reload => reading = read(target),
            },
            fresh = taken(&mut reading) => {
                take(target, fresh);
                reading = std::mem::take(&mut again).then(|| read(target)).flatten();
            }
        }
    }
}

/// What is read; never without a reading.
async fn taken<R: Future>(reading: &mut Option<Pin<Box<R>>>) -> R::Output {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;

    use tokio::sync::oneshot;

    use super::*;

    /// Reads when the test says so.
    #[derive(Default)]
    struct Disk {
        readings: RefCell<VecDeque<oneshot::Receiver<u8>>>,
        begun: Cell<usize>,
    }

    impl Disk {
        fn reading(&self) -> oneshot::Sender<u8> {
            let (answer, reading) = oneshot::channel();
            self.readings.borrow_mut().push_back(reading);
            answer
        }
    }

    async fn run(disk: &Disk, asked: &[Asked], between: impl Fn(usize)) -> Vec<u8> {
        let mut taken = Vec::new();
        let asked_so_far = Cell::new(0);
        let next = async || {
            // What is ready goes first, as with signals that come one by one.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            let number = asked_so_far.replace(asked_so_far.get() + 1);
            between(number);
            asked[number]
        };
        let read = |_: &Vec<u8>| {
            disk.begun.set(disk.begun.get() + 1);
            let reading = disk.readings.borrow_mut().pop_front()?;
            Some(Box::pin(async move { reading.await.unwrap() }))
        };
        until_told(&mut taken, next, read, |taken: &mut Vec<u8>, fresh| taken.push(fresh)).await;
        taken
    }

    #[tokio::test]
    async fn a_disk_that_hangs_keeps_nobody_from_leaving() {
        let disk = Disk::default();
        let _hangs = disk.reading();
        let taken = run(&disk, &[Asked::Reload, Asked::Reload, Asked::Leave], |_| {}).await;
        assert_eq!((taken, disk.begun.get()), (vec![], 1));
    }

    #[tokio::test]
    async fn what_is_asked_for_while_it_is_read_is_read_once_more() {
        let disk = Disk::default();
        let answers = RefCell::new(VecDeque::from([disk.reading(), disk.reading()]));
        let answer = |fresh| answers.borrow_mut().pop_front().unwrap().send(fresh).unwrap();
        let between = |number| match number {
            2 => answer(7),
            3 => answer(8),
            _ => {}
        };
        let asked = [Asked::Reload, Asked::Reload, Asked::Reload, Asked::Reload, Asked::Leave];
        let taken = run(&disk, &asked, between).await;
        assert_eq!(taken[..1], [7]);
        assert!(disk.begun.get() >= 2, "read again, for what may have changed meanwhile");
    }
}
