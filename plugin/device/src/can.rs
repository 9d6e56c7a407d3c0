// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bus of a CAN controller: one frame at a time, by its priority; what waits to be sent on both sides; filters and
//! queues of what is received.

use std::collections::VecDeque;

use wire::can::Frame;

use crate::NS_PER_S;

/// Most frames of others that wait beside an answer.
const MAX_WAITING: usize = 4096;

/// A frame on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameOnBus {
    /// The mailbox that it is sent from; None: somebody else sends it.
    pub(crate) mailbox: Option<usize>,
    pub(crate) frame: Frame,
    /// Ticket of its end; a reset makes it worthless.
    ticket: u64,
}

/// State of a controller and its bus.
#[derive(Clone, Debug, Default)]
pub(crate) struct CanBus {
    /// Mailboxes that wait, in the order of their requests.
    pending: Vec<usize>,
    /// Frames that others send next, in their order.
    others: VecDeque<Frame>,
    /// The frame that is on the bus.
    moving: Option<FrameOnBus>,
    /// Whether the controller was woken for the frames that wait.
    has_woken: bool,
    /// Received frames of each queue, each with the number of the filter that took it.
    queues: Vec<VecDeque<(Frame, u32)>>,
}

impl CanBus {
    /// A bus at rest.
    pub(crate) fn new(queues: usize) -> CanBus {
        CanBus { queues: vec![VecDeque::new(); queues], ..CanBus::default() }
    }

    /// Notes that a mailbox is to be sent. Returns whether that is news.
    pub(crate) fn request(&mut self, mailbox: usize) -> bool {
        let is_new = !self.pending.contains(&mailbox);
        if is_new {
            self.pending.push(mailbox);
        }
        is_new
    }

    /// Withdraws a mailbox that is not on the bus. Returns whether it was one.
    pub(crate) fn withdraw(&mut self, mailbox: usize) -> bool {
        let at = self.pending.iter().position(|&one| one == mailbox && !self.is_moving(mailbox));
        at.map(|at| self.pending.remove(at)).is_some()
    }

    /// Adds a frame of somebody else's.
    pub(crate) fn add(&mut self, frame: Frame) {
        self.others.push_back(frame);
        self.has_woken = false;
    }

    /// Adds an answer to a frame of the chip's, unless too many wait.
    pub(crate) fn add_answer(&mut self, frame: Frame) {
        if self.others.len() < MAX_WAITING {
            self.add(frame);
        }
    }

    /// Notes whether the controller sleeps. Returns whether the frames that wait are to wake it: once for each that comes.
    pub(crate) fn wakes(&mut self, is_asleep: bool) -> bool {
        let wakes = is_asleep && !self.others.is_empty();
        wakes && !std::mem::replace(&mut self.has_woken, wakes)
    }

    /// Whether a mailbox's frame is on the bus.
    pub(crate) fn is_moving(&self, mailbox: usize) -> bool {
        self.moving.is_some_and(|moving| moving.mailbox == Some(mailbox))
    }

    /// Takes back all requests, also that of the frame on the bus, and empties the queues.
    pub(crate) fn reset(&mut self) {
        let mut others = std::mem::take(&mut self.others);
        if let Some(FrameOnBus { mailbox: None, frame, .. }) = self.moving {
            // Nobody has acknowledged it.
            others.push_front(frame);
        }
        *self = CanBus { others, ..CanBus::new(self.queues.len()) };
    }

    /// The first mailbox that is free, of as many.
    pub(crate) fn free(&self, mailboxes: usize) -> Option<usize> {
        (0..mailboxes).find(|mailbox| !self.pending.contains(mailbox))
    }

    /// Whether no frame is on the bus.
    pub(crate) fn is_idle(&self) -> bool {
        self.moving.is_none()
    }

    /// Mailboxes that may be sent next; in order, only the first one.
    pub(crate) fn pending(&self, is_in_order: bool) -> &[usize] {
        let count = if is_in_order { self.pending.len().min(1) } else { self.pending.len() };
        &self.pending[..count]
    }

    /// Begins the next frame on an idle bus: of the mailboxes' frames and the one that others send next, if they are heard,
    /// the one that wins, which is the lowest. It ends with the ticket.
    pub(crate) fn begin(&mut self, own: &[(usize, Frame)], has_others: bool, ticket: u64) -> Option<FrameOnBus> {
        let own = own.iter().map(|&(mailbox, frame)| FrameOnBus { mailbox: Some(mailbox), frame, ticket });
        let other = self.others.front().filter(|_| has_others);
        let other = other.map(|&frame| FrameOnBus { mailbox: None, frame, ticket });
        // Of equal ones the mailbox with the lowest number is first, and the chip's before others'.
        let next =
            own.chain(other).min_by_key(|moving| (moving.frame.rank(), moving.mailbox.unwrap_or(usize::MAX)))?;
        if next.mailbox.is_none() {
            self.others.pop_front();
        }
        self.moving = Some(next);
        Some(next)
    }

    /// Ends the frame on the bus that began with the ticket. None: a reset has taken it back.
    pub(crate) fn end(&mut self, ticket: u64) -> Option<FrameOnBus> {
        let moving = self.moving.take_if(|moving| moving.ticket == ticket)?;
        self.pending.retain(|&mailbox| Some(mailbox) != moving.mailbox);
        Some(moving)
    }

    /// Puts a received frame in a queue. Returns whether it found room; where it does not, it is lost, or takes the last one's
    /// place.
    pub(crate) fn receive(&mut self, queue: usize, (frame, filter): (Frame, u32), depth: u32, keeps: bool) -> bool {
        let Some(queue) = self.queues.get_mut(queue) else { return true };
        let has_room = queue.len() < depth as usize;
        if has_room {
            queue.push_back((frame, filter));
        } else if let Some(last) = queue.back_mut().filter(|_| !keeps) {
            *last = (frame, filter);
        }
        has_room
    }

    /// Removes the first frame of a queue.
    pub(crate) fn release(&mut self, queue: usize) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.pop_front();
        }
    }

    /// The first frame of a queue with the number of its filter, and the number of frames.
    pub(crate) fn queue(&self, queue: usize) -> (Option<(Frame, u32)>, usize) {
        self.queues.get(queue).map_or((None, 0), |queue| (queue.front().copied(), queue.len()))
    }
}

/// The mailbox that is sent last of those that wait, given in the order of their requests.
pub(crate) fn last(pending: &[(usize, Frame)], is_in_order: bool) -> Option<usize> {
    let last = if is_in_order {
        pending.last()
    } else {
        pending.iter().max_by_key(|(mailbox, frame)| (frame.rank(), *mailbox))
    };
    last.map(|&(mailbox, _)| mailbox)
}

/// Nanoseconds for which a frame is on the bus: `hz` quanta come in a second, `quanta` of which are a bit.
pub(crate) fn duration_ns(frame: &Frame, hz: u64, quanta: u64) -> u64 {
    let ns = u128::from(frame.bits()) * u128::from(quanta) * NS_PER_S;
    let ns = ns.checked_div(hz.into()).unwrap_or(0);
    u64::try_from(ns).unwrap_or(u64::MAX).max(1)
}

/// Registers of filters: a bit for each bank, and the banks' words.
pub(crate) struct Banks<'a> {
    pub(crate) active: u32,
    pub(crate) list: u32,
    pub(crate) wide: u32,
    pub(crate) queue: u32,
    pub(crate) words: &'a [[u32; 2]],
    /// Number of the first bank in `words`.
    pub(crate) first: usize,
}

/// A filter that takes a frame.
struct FilterMatch {
    is_wide: bool,
    is_list: bool,
    queue: usize,
    number: u32,
}

impl Banks<'_> {
    /// The queue that takes a frame, and the number of the filter, counted in the queue. Wide filters come before narrow ones,
    /// lists before masks, lower numbers before higher ones.
    pub(crate) fn find(&self, frame: &Frame) -> Option<(usize, u32)> {
        let mut numbers = [0, 0];
        let mut best: Option<FilterMatch> = None;
        for (index, words) in self.words.iter().enumerate() {
            let bit = |register: u32| register >> (self.first + index) & 1 != 0;
            let (is_wide, is_list, queue) = (bit(self.wide), bit(self.list), usize::from(bit(self.queue)));
            let takes = takes(frame, *words, is_wide, is_list);
            let taken = takes.iter().position(|&takes| takes).filter(|_| bit(self.active));
            if let Some(at) = taken
                && best.as_ref().is_none_or(|best| (is_wide, is_list) > (best.is_wide, best.is_list))
            {
                best = Some(FilterMatch { is_wide, is_list, queue, number: numbers[queue] + at as u32 });
            }
            numbers[queue] += takes.len() as u32;
        }
        best.map(|best| (best.queue, best.number))
    }
}

/// Whether each filter of a bank takes a frame.
fn takes(frame: &Frame, [first, second]: [u32; 2], is_wide: bool, is_list: bool) -> Vec<bool> {
    let Frame { id, is_extended, is_remote, .. } = *frame;
    let remote = u32::from(is_remote);
    if is_wide {
        let word = if is_extended { id << 3 | 1 << 2 } else { id << 21 } | remote << 1;
        return match is_list {
            true => [first, second].map(|wanted| wanted & !1 == word).to_vec(),
            false => vec![(word ^ first) & second & !1 == 0],
        };
    }
    let half = if is_extended { id >> 18 << 5 | 1 << 3 | (id >> 15 & 7) } else { id << 5 } | remote << 4;
    let halves = |word: u32| [word & 0xffff, word >> 16];
    match is_list {
        true => [first, second].into_iter().flat_map(halves).map(|wanted| wanted == half).collect(),
        false => [first, second].map(|word| (half ^ word) & word >> 16 & 0xffff == 0).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(text).unwrap()
    }

    #[test]
    fn the_lowest_identifier_is_sent_first_and_in_order_the_first_one() {
        let own = ["300#", "100#", "200#"].map(frame);
        for (is_in_order, wanted) in
            [(false, ["100#", "150#", "200#", "300#"]), (true, ["150#", "300#", "100#", "200#"])]
        {
            let mut bus = CanBus::new(1);
            assert!((0..3).all(|mailbox| bus.request(mailbox)) && !bus.request(1));
            bus.add(frame("150#"));
            let next = |bus: &mut CanBus| {
                let pending: Vec<_> =
                    bus.pending(is_in_order).iter().map(|&mailbox| (mailbox, own[mailbox])).collect();
                bus.begin(&pending, true, 0)
            };
            let sent = wanted.map(|_| {
                assert!(bus.is_idle() && next(&mut bus).is_some() && !bus.is_idle());
                bus.end(0).unwrap().frame.to_string()
            });
            assert_eq!(sent, wanted);
            assert_eq!(next(&mut bus), None);
        }
    }

    #[test]
    fn a_request_is_withdrawn_unless_its_frame_is_on_the_bus() {
        let mut bus = CanBus::new(1);
        bus.request(0);
        bus.request(1);
        bus.begin(&[(0, frame("100#")), (1, frame("200#"))], false, 0);
        assert!(!bus.withdraw(0) && bus.withdraw(1) && !bus.withdraw(1));
        assert_eq!(
            (bus.free(2), bus.end(0).and_then(|moving| moving.mailbox), bus.free(2)),
            (Some(1), Some(0), Some(0))
        );
    }

    #[test]
    fn the_last_mailbox_is_the_one_with_the_highest_identifier_or_of_the_last_request() {
        let pending = [(2, frame("100#")), (0, frame("300#")), (1, frame("200#"))];
        assert_eq!([false, true].map(|is_in_order| last(&pending, is_in_order)), [Some(0), Some(1)]);
        assert_eq!(last(&[(0, frame("100#")), (1, frame("100#"))], false), Some(1));
    }

    #[test]
    fn a_reset_takes_all_back_but_what_others_send() {
        let mut bus = CanBus::new(1);
        bus.request(0);
        bus.begin(&[(0, frame("100#"))], false, 0);
        bus.receive(0, (frame("001#"), 0), 3, false);
        bus.add(frame("200#"));
        bus.reset();
        assert!(bus.is_idle() && bus.pending(false).is_empty() && bus.queue(0) == (None, 0));
        for _ in 0..2 {
            let other = bus.begin(&[], true, 0).map(|moving| moving.frame);
            assert_eq!(other, Some(frame("200#")), "also if it was on the bus");
            bus.reset();
        }
    }

    #[test]
    fn a_controller_is_woken_once_for_each_frame_that_comes() {
        let mut bus = CanBus::new(1);
        assert!(!bus.wakes(true));
        bus.add(frame("200#"));
        assert!(!bus.wakes(false) && bus.wakes(true) && !bus.wakes(true));
        bus.add(frame("200#"));
        assert!(bus.wakes(true));
    }

    #[test]
    fn answers_that_nobody_takes_are_bounded() {
        let mut bus = CanBus::new(1);
        (0..2 * MAX_WAITING).for_each(|_| bus.add_answer(frame("200#")));
        assert_eq!(bus.others.len(), MAX_WAITING);
    }

    #[test]
    fn a_full_queue_keeps_its_frames_or_replaces_the_last_one() {
        for (keeps, wanted) in [(true, ["001#", "002#"]), (false, ["001#", "003#"])] {
            let mut bus = CanBus::new(1);
            let found_room = ["001#", "002#", "003#"].map(|text| bus.receive(0, (frame(text), 7), 2, keeps));
            assert_eq!(found_room, [true, true, false]);
            let kept = wanted.map(|_| {
                let (first, _) = bus.queue(0);
                bus.release(0);
                first.unwrap().0.to_string()
            });
            assert_eq!((kept, bus.queue(0)), (wanted.map(str::to_owned), (None, 0)));
        }
    }

    #[test]
    fn a_frame_takes_as_long_as_its_bits() {
        // 8 MHz, 16 quanta: 500 kbit/s.
        assert_eq!(duration_ns(&frame("123#1122"), 8_000_000, 16), 126_000);
        assert_eq!(duration_ns(&frame("123#"), 0, 16), 1, "a clock that stands still holds nothing up");
    }

    #[test]
    fn filters_take_what_their_words_say_and_are_counted_in_their_queue() {
        let std = |id: u32| id << 21;
        let half = |id: u32| id << 5;
        let words = [
            [std(0x120), std(0x7f0) | 6],                         // A wide mask, queue 0: number 0.
            [0x123_4567 << 3 | 4, 1],                             // A wide list, queue 1: numbers 0 and 1.
            [half(0x555) | half(0x556) << 16, half(0x557)],       // A narrow list, queue 0: numbers 1 to 4.
            [half(0x600) | (half(0x700) | 0x18) << 16, u32::MAX], // Narrow masks, queue 0: numbers 5 and 6.
            [0, 0],                                               // A wide mask that takes all, queue 1, not active.
            [std(0x121), 1],                                      // A wide list, queue 1: numbers 3 and 4.
        ];
        let mut banks =
            Banks { active: 0b10_1111, list: 0b10_0110, wide: 0b11_0011, queue: 0b11_0010, words: &words, first: 0 };
        let cases = [
            ("120#", Some((0, 0))),
            ("121#", Some((1, 3))), // A list comes before a mask.
            ("12F#11", Some((0, 0))),
            ("120#R", None),
            ("00000120#", None),
            ("01234567#", Some((1, 0))),
            ("01234567#R", None),
            ("555#", Some((0, 1))),
            ("557#", Some((0, 3))),
            ("558#", None),
            ("6A5#", Some((0, 5))),
            ("6A5#R", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(banks.find(&frame(text)), wanted, "{text}");
        }
        banks.active = 1 << 4;
        assert_eq!(banks.find(&frame("7FF#")), Some((1, 2)));
        // Of a second controller's banks the first one has a bit above.
        let second = Banks { active: 1 << 14, list: 0, wide: 1 << 14, queue: 0, words: &words[..1], first: 14 };
        assert_eq!(second.find(&frame("120#")), Some((0, 0)));
    }
}
