//! Asking a cluster as a client does, and waiting for the answer.

use super::*;

impl Cluster {
    /// A start with a put id of its own, sent without waiting.
    pub fn send_put_start(
        &mut self,
        client: ClientId,
        key: &[u8],
        size_bytes: u64,
        options: &PutOptions,
    ) -> RequestId {
        self.next_put += 1;
        let request = ShardRequest::PutStart {
            client,
            options: options.clone(),
            extras: None,
            batch: self.batch(&[key]),
            puts: vec![PutRequest { size_bytes, put_id: self.next_put }],
        };
        self.send_shard(self.shard_of(key), request)
    }

    /// Starts a put and waits for its answer, if need be through ticks.
    pub fn put_start(
        &mut self,
        client: ClientId,
        key: &[u8],
        size_bytes: u64,
    ) -> Result<PutStartGrant, Refusal> {
        self.put_start_with(client, key, size_bytes, &PutOptions::default())
    }

    pub fn put_start_with(
        &mut self,
        client: ClientId,
        key: &[u8],
        size_bytes: u64,
        options: &PutOptions,
    ) -> Result<PutStartGrant, Refusal> {
        let id = self.send_put_start(client, key, size_bytes, options);
        self.settle();
        while self.open.contains_key(&id) {
            self.advance(TICK_MS);
        }
        match self.take_shard_answer(id) {
            ShardReply::Started(mut answers) => answers.remove(0),
            other => panic!("a start is answered with {other:?}"),
        }
    }

    /// Asks the shard of a key and gives out its single answer.
    fn done(&mut self, key: &[u8], request: ShardRequest) -> Result<(), Refusal> {
        let id = self.send_shard(self.shard_of(key), request);
        self.settle();
        match self.take_shard_answer(id) {
            ShardReply::Done(mut answers) => answers.remove(0),
            other => panic!("answered with {other:?}"),
        }
    }

    pub fn put_end(&mut self, key: &[u8], sequence: u64) -> Result<(), Refusal> {
        let batch = self.batch(&[key]);
        let sequences = vec![sequence];
        self.done(key, ShardRequest::PutEnd { incarnation: self.incarnation, batch, sequences })
    }

    pub fn put_revoke(
        &mut self,
        key: &[u8],
        sequence: u64,
        no_write_in_flight: bool,
    ) -> Result<(), Refusal> {
        let batch = self.batch(&[key]);
        let sequences = vec![sequence];
        self.done(
            key,
            ShardRequest::PutRevoke {
                incarnation: self.incarnation,
                no_write_in_flight,
                batch,
                sequences,
            },
        )
    }

    pub fn validate(&mut self, key: &[u8], sequence: u64) -> Result<(), Refusal> {
        let batch = self.batch(&[key]);
        let sequences = vec![sequence];
        self.done(key, ShardRequest::Validate { incarnation: self.incarnation, batch, sequences })
    }

    pub fn remove(&mut self, key: &[u8], force: bool) -> Result<(), Refusal> {
        let batch = self.batch(&[key]);
        self.done(key, ShardRequest::Remove { force, batch })
    }

    /// Puts a whole object.
    pub fn put(
        &mut self,
        client: ClientId,
        key: &[u8],
        size_bytes: u64,
    ) -> Result<PutStartGrant, Refusal> {
        let grant = self.put_start(client, key, size_bytes)?;
        self.put_end(key, grant.sequence)?;
        Ok(grant)
    }

    pub fn get(&mut self, key: &[u8]) -> Result<Located, Refusal> {
        let id =
            self.send_shard(self.shard_of(key), ShardRequest::Get { batch: self.batch(&[key]) });
        self.settle();
        match self.take_shard_answer(id) {
            ShardReply::Located(mut answers) => answers.remove(0),
            other => panic!("a get is answered with {other:?}"),
        }
    }

    pub fn exists(&mut self, key: &[u8]) -> bool {
        let request = ShardRequest::Exist { lease: false, batch: self.batch(&[key]) };
        let id = self.send_shard(self.shard_of(key), request);
        self.settle();
        match self.take_shard_answer(id) {
            ShardReply::Existing(answers) => answers[0],
            other => panic!("an exist is answered with {other:?}"),
        }
    }

    /// Removes everything and says how many objects went and stayed.
    pub fn remove_all(&mut self, force: bool) -> (u64, u64) {
        let ids: Vec<RequestId> = (0..self.route.shards())
            .map(|number| self.send_shard(ShardId(number), ShardRequest::RemoveAll { force }))
            .collect();
        self.settle();
        let mut sum = (0, 0);
        for id in ids {
            match self.take_shard_answer(id) {
                ShardReply::Removed { removed, kept } => sum = (sum.0 + removed, sum.1 + kept),
                other => panic!("a remove-all is answered with {other:?}"),
            }
        }
        sum
    }

    /// Pings as a client that keeps these segments, and says whether it must remount.
    pub fn ping(&mut self, client: ClientId, kept: &[SegmentId]) -> bool {
        let id = self.ticket();
        let mounted_segments = kept.len() as u32;
        let kept = Some(kept.iter().copied().collect());
        let ping = ClientsMessage::Ping { id, client, mounted_segments, kept };
        self.queue.push_back(Envelope::ToClients(ping));
        self.settle();
        match self.answers.remove(&id) {
            Some(Answer::Ping { need_remount }) => need_remount,
            other => panic!("a ping is answered with {other:?}"),
        }
    }

    /// Mounts a segment of a client at an address that no other has.
    pub fn mount(&mut self, client: ClientId, number: u128, size_bytes: u64) -> MountGrant {
        *self.pinging.entry(client).or_default() += 1;
        self.try_mount(client, memory(client, number, size_bytes)).expect("the segment is sound")
    }

    pub fn try_mount(
        &mut self,
        client: ClientId,
        mount: MountRequest,
    ) -> Result<MountGrant, WireError> {
        let id = self.send_pool(PoolRequest::Mount { client, mount });
        self.settle();
        match self.take_pool_answer(id) {
            PoolReply::Mounted(result) => result,
            other => panic!("a mount is answered with {other:?}"),
        }
    }

    pub fn remount(
        &mut self,
        client: ClientId,
        mounts: Vec<MountRequest>,
    ) -> Result<Vec<MountGrant>, WireError> {
        let id = self.send_pool(PoolRequest::Remount { client, mounts });
        self.settle();
        match self.take_pool_answer(id) {
            PoolReply::Remounted(result) => result,
            other => panic!("a remount is answered with {other:?}"),
        }
    }

    pub fn unmount(
        &mut self,
        client: Option<ClientId>,
        segment: SegmentId,
        grace_ms: u64,
    ) -> Result<u64, WireError> {
        let id = self.send_pool(PoolRequest::Unmount { client, segment, grace_ms });
        self.settle();
        match self.take_pool_answer(id) {
            PoolReply::Unmounted(result) => result,
            other => panic!("an unmount is answered with {other:?}"),
        }
    }
}
