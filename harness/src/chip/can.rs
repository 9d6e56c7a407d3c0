// SPDX-License-Identifier: MIT OR Apache-2.0
//! CAN controllers of a chip file, resolved for the plugin.

use wire::can::{Can, CanAnswer, Filters, Frame, FrameAt, MAX_BANKS, MAX_DEPTH, MAX_MAILBOXES, Mailbox, Queue};
use wire::chip::Block;

use super::file::{CanAnswerTable, CanTable, FiltersTable, FrameTable, KindTable, MailboxTable, QueueTable, Text};
use super::resolve::{Draft, Rules};
use crate::error::InputError;
use crate::text::number::parse_ns;

/// Words of a frame's data.
const DATA_WORDS: usize = 2;

/// Words of a bank of filters.
const BANK_WORDS: u32 = 2;

/// Reason why a text is not a frame, for messages.
pub(super) const FRAME: &str =
    "a frame is written as 123#1122, 01234567#AA with an extended identifier, 123#R without data";

impl Rules<'_, '_> {
    /// Adds CAN controllers, and what others on their bus answer.
    pub(super) fn cans(&self, kind: &KindTable, block: &mut Block) -> Result<(), InputError> {
        let filters = kind.filters.as_ref().map(|table| self.filters(table)).transpose()?;
        for can in &kind.can {
            block.cans.push(self.can(can, filters.clone())?);
        }
        let Draft { name, source, peripheral, .. } = self.draft;
        let wrong = |what: &str| {
            let reason = format!("{name}: its kind {} {what}", peripheral.kind.get_ref());
            Err(source.at(&peripheral.kind, reason))
        };
        if kind.can.is_empty() && kind.follow.iter().any(|follow| follow.idle) {
            return wrong("has a [[follow]] with `idle`, and no [[can]]");
        }
        if kind.can.is_empty() && kind.filters.is_some() || kind.filters.is_none() && peripheral.filters_by.is_some()
        {
            return wrong("needs a [[can]] and [filters] for its filters");
        }
        if kind.can.len() > 1 {
            return wrong("has more than one [[can]]: make each a peripheral of its own");
        }
        if kind.can.is_empty() && !peripheral.answers.is_empty() {
            let reason = format!("{name}: its kind has no [[can]] for `answers` and `filters-by`");
            return Err(source.at(&peripheral.kind, reason));
        }
        block.can_answers = peripheral.answers.iter().map(|answer| self.answer(answer)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn can(&self, table: &CanTable, filters: Option<Filters>) -> Result<Can, InputError> {
        let (mut mailboxes, mut queues) = (Vec::new(), Vec::new());
        for table in &table.mailbox {
            for number in self.repeats(table.repeat, &table.request)? {
                mailboxes.push(self.mailbox(table, number)?);
            }
        }
        for table in &table.queue {
            for number in self.repeats(table.repeat, &table.level)? {
                queues.push(self.queue(table, number)?);
            }
        }
        let at =
            table.queue.first().map(|queue| &queue.level).or(table.mailbox.first().map(|mailbox| &mailbox.request));
        if let Some(at) = at.filter(|_| mailboxes.len().max(queues.len()) > MAX_MAILBOXES) {
            return Err(self.source().at(at, format_args!("more than {MAX_MAILBOXES} mailboxes or queues")));
        }
        Ok(Can {
            when: self.settings(&table.when, 0)?,
            loops: self.settings(&table.loops, 0)?,
            silent: self.settings(&table.silent, 0)?,
            in_order: self.settings(&table.in_order, 0)?,
            resets: self.optional(&table.resets, 0)?,
            asleep: self.settings(&table.asleep, 0)?,
            woken: self.settings(&table.woken, 0)?,
            received: self.settings(&table.received, 0)?,
            clock: self.clock(table.clock.as_ref())?,
            divide: self.factors(&table.divide)?,
            segments: self.factors(&table.segments)?,
            free: self.optional(&table.free, 0)?,
            mailboxes,
            queues,
            filters,
        })
    }

    fn frame_at(&self, table: &FrameTable, number: u32) -> Result<FrameAt, InputError> {
        let FrameTable { standard, extended, is_extended, remote, length, data } = table;
        if data.len() != DATA_WORDS {
            return Err(self.source().at(length, format_args!("`data` must be {DATA_WORDS} fields of 32 bits")));
        }
        Ok(FrameAt {
            standard: self.field_of(standard, number)?,
            extended: self.field_of(extended, number)?,
            is_extended: self.field_of(is_extended, number)?,
            remote: self.field_of(remote, number)?,
            length: self.field_of(length, number)?,
            data: data.iter().map(|text| self.field_of(text, number)).collect::<Result<_, _>>()?,
        })
    }

    fn mailbox(&self, table: &MailboxTable, number: u32) -> Result<Mailbox, InputError> {
        Ok(Mailbox {
            request: self.field_of(&table.request, number)?,
            frame: self.frame_at(&table.frame, number)?,
            begin: self.settings(&table.begin, number)?,
            sent: self.settings(&table.sent, number)?,
            abort: self.optional(&table.abort, number)?,
            aborted: self.settings(&table.aborted, number)?,
            last: self.optional(&table.last, number)?,
        })
    }

    fn queue(&self, table: &QueueTable, number: u32) -> Result<Queue, InputError> {
        if !(1..=MAX_DEPTH).contains(&table.depth) {
            return Err(self.source().at(&table.level, format_args!("`depth` must be 1 to {MAX_DEPTH}")));
        }
        Ok(Queue {
            frame: self.frame_at(&table.frame, number)?,
            filter: self.optional(&table.filter, number)?,
            level: self.field_of(&table.level, number)?,
            depth: table.depth,
            release: self.field_of(&table.release, number)?,
            full: self.settings(&table.full, number)?,
            keeps: self.settings(&table.keeps, number)?,
            lost: self.settings(&table.lost, number)?,
        })
    }

    /// The filters, whose registers are those of the peripheral that `filters-by` names.
    fn filters(&self, table: &FiltersTable) -> Result<Filters, InputError> {
        let Draft { name, source, peripheral, .. } = self.draft;
        let by = peripheral.filters_by.as_ref();
        let index = by.map_or(Ok(self.index as usize), |by| self.other(by))?;
        let of = self.of(index);
        let kind = |rules: &Rules<'_, '_>| rules.draft.peripheral.kind.get_ref().clone();
        if let Some(by) = by.filter(|_| index == self.index as usize || kind(&of) != kind(self)) {
            let reason = format!("{name}: its filters are those of another peripheral of the same kind");
            return Err(source.at(by, reason));
        }
        if !(1..=MAX_BANKS as u32).contains(&table.banks) {
            return Err(self.source().at(&table.words, format_args!("`banks` must be 1 to {MAX_BANKS}")));
        }
        let register = |text: &Text| of.register(text, 0);
        let words = (0..BANK_WORDS * table.banks).map(|number| of.register(&table.words, number));
        Ok(Filters {
            block: index as u32,
            off: of.settings(&table.off, 0)?,
            active: register(&table.active)?,
            list: register(&table.list)?,
            wide: register(&table.wide)?,
            queue: register(&table.queue)?,
            words: words.collect::<Result<_, _>>()?,
            split: of.optional(&table.split, 0)?,
            is_second: by.is_some(),
        })
    }

    fn answer(&self, table: &CanAnswerTable) -> Result<CanAnswer, InputError> {
        let Draft { name, source, .. } = self.draft;
        let frame = |text: &Text| {
            let wrong = || source.at(text, format_args!("{name}: {:?} in `answers`: {FRAME}", text.get_ref()));
            Frame::parse(text.get_ref()).ok_or_else(wrong)
        };
        let time = |text: &Text| {
            let wrong =
                || source.at(text, format_args!("{name}: after = {:?}: write a time, as 1ms", text.get_ref()));
            parse_ns(text.get_ref()).ok_or_else(wrong)
        };
        Ok(CanAnswer {
            to: frame(&table.to)?,
            with: frame(&table.with)?,
            after_ns: table.after.as_ref().map_or(Ok(0), time)?,
        })
    }
}
