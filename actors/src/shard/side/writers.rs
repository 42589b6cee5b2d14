//! The writers of objects, each with a number that is shorter than its id.

use std::collections::HashMap;

use mooring_proto::ClientId;

/// The number of a writer among those that a shard knows; zero for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriterId(u32);

/// Writers that have at least one object.
#[derive(Debug, Default)]
pub(super) struct Writers {
    by_client: HashMap<ClientId, WriterId>,
    /// By number, from one.
    writers: Vec<Writer>,
    free: Vec<WriterId>,
    /// The one that was asked for last: those of a batch are all the same.
    latest: WriterId,
}

#[derive(Debug)]
struct Writer {
    client: ClientId,
    objects: u32,
}

impl Writers {
    /// The number of a writer, for one more of its objects.
    pub(super) fn intern(&mut self, client: ClientId) -> WriterId {
        if self.client(self.latest) != Some(client) {
            self.latest = self.find_or_add(client);
        }
        let latest = self.latest;
        self.writer_mut(latest).objects += 1;
        latest
    }

    fn find_or_add(&mut self, client: ClientId) -> WriterId {
        if let Some(known) = self.by_client.get(&client) {
            return *known;
        }
        let writer = Writer { client, objects: 0 };
        let id = match self.free.pop() {
            Some(id) => {
                *self.writer_mut(id) = writer;
                id
            }
            None => {
                self.writers.push(writer);
                // A shard has fewer than 2^31 objects, and each writer has one of them.
                WriterId(self.writers.len() as u32)
            }
        };
        self.by_client.insert(client, id);
        id
    }

    /// One object less; with its last one the writer is forgotten.
    pub(super) fn release(&mut self, id: WriterId) {
        if id == WriterId::default() {
            return;
        }
        let writer = self.writer_mut(id);
        writer.objects -= 1;
        if writer.objects == 0 {
            let client = writer.client;
            self.by_client.remove(&client);
            self.free.push(id);
            if self.latest == id {
                self.latest = WriterId::default();
            }
        }
    }

    /// Whose number it is.
    pub(super) fn client(&self, id: WriterId) -> Option<ClientId> {
        let place = (id.0 as usize).checked_sub(1)?;
        Some(self.writers[place].client)
    }

    /// Bytes of heap memory, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.writers.capacity() * size_of::<Writer>()
            + self.free.capacity() * size_of::<WriterId>()
            + self.by_client.capacity() * size_of::<(ClientId, WriterId)>()
    }

    fn writer_mut(&mut self, id: WriterId) -> &mut Writer {
        &mut self.writers[id.0 as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_keeps_its_number_while_it_has_an_object_and_then_another_one_gets_it() {
        let mut writers = Writers::default();
        let (first, second) = (ClientId(1), ClientId(2));
        let id = writers.intern(first);
        let other = writers.intern(second);
        assert_ne!(id, other);
        assert_eq!(writers.intern(first), id);
        writers.release(id);
        assert_eq!(writers.client(id), Some(first));
        writers.release(id);
        writers.release(WriterId::default());
        let third = ClientId(3);
        assert_eq!(writers.intern(third), id, "the number is free");
        assert_eq!((writers.client(id), writers.client(other)), (Some(third), Some(second)));
        assert_ne!(writers.intern(first), id);
    }
}
