//! Several files of shards as one, in order of place: for a master that has another number of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;

use mooring_actors::handoff::{RangePlace, RangeRecord};

use super::ReadError;
use super::reader::ShardFileReader;
use super::record::Parsed;

/// Gives the records of several files in order of place, each with the place of its file in the
/// list. Ordinals of objects count within a file. With one file it costs a branch a record.
pub(crate) struct MergedReader<R: Read> {
    sources: Vec<Source<R>>,
    /// The next record of each source but the current one, the first in order on top.
    waiting: BinaryHeap<Reverse<(RangePlace, usize)>>,
    /// The source that gave the last record; what comes next in it is not known yet.
    current: Option<usize>,
    failure: Option<ReadError>,
}

struct Source<R: Read> {
    reader: ShardFileReader<R>,
    head: Option<Parsed>,
}

impl<R: Read> MergedReader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// As [`ShardFileReader::next`].
    pub(crate) fn new(readers: Vec<ShardFileReader<R>>) -> Result<MergedReader<R>, ReadError> {
        let sources = readers.into_iter().map(|reader| Source { reader, head: None }).collect();
        let mut merged =
            MergedReader { sources, waiting: BinaryHeap::new(), current: None, failure: None };
        if merged.sources.len() > 1 {
            for index in 0..merged.sources.len() {
                if let Some(place) = merged.advance(index)? {
                    merged.waiting.push(Reverse((place, index)));
                }
            }
        }
        Ok(merged)
    }

    /// The next record with the index of its file, `None` once all came and every file is what was
    /// written. Ranges of different files may lie at the same place: whoever restores them finds
    /// that they overlap.
    ///
    /// # Errors
    /// As [`ShardFileReader::next`].
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(usize, RangeRecord<'_>)>, ReadError> {
        if self.sources.len() == 1 {
            return Ok(self.sources[0].reader.next()?.map(|record| (0, record)));
        }
        let Some(index) = self.select()? else { return Ok(None) };
        self.current = Some(index);
        let source = &self.sources[index];
        Ok(source.head.as_ref().map(|parsed| (index, source.reader.view(parsed))))
    }

    /// The source whose next record is the first in order. Records of one shard lie together, so it
    /// is mostly the one that gave the last one, and the heap is left alone then.
    fn select(&mut self) -> Result<Option<usize>, ReadError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if let Some(current) = self.current.take()
            && let Some(place) = self.advance(current)?
        {
            match self.waiting.peek() {
                Some(Reverse(first)) if *first < (place, current) => {
                    self.waiting.push(Reverse((place, current)));
                }
                _ => return Ok(Some(current)),
            }
        }
        Ok(self.waiting.pop().map(|Reverse((_, index))| index))
    }

    fn advance(&mut self, index: usize) -> Result<Option<RangePlace>, ReadError> {
        let source = &mut self.sources[index];
        match source.reader.advance() {
            Ok(head) => {
                source.head = head;
                Ok(head.map(|parsed| parsed.place))
            }
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }
}
