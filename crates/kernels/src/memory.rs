//! An allocator that asks for huge pages where they pay.
//!
//! The first touch of a page of 4 KiB costs a microsecond or more on a virtual machine, and a run touches
//! tens of thousands of them; random access to tens of megabytes misses the translation cache besides. Linux
//! gives pages of 2 MiB on request. Where the host of a virtual machine takes back what is free, a first touch costs
//! twenty times more, so that memory is better used again than returned and asked for.
//!
//! mimalloc in its place is slower, with huge pages too: it asks for them for everything or for nothing. Both are
//! compared in `docs/performance.md`.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, except that large blocks are aligned to huge pages and request them. They are zero
/// when fresh and return to the system when freed, unless a [`KeepFreed`] lives.
pub struct HugePages;

/// While one of these lives, freed large blocks keep their memory, and later ones take it. Used and kept together are at
/// most what was used at once since the first began, but for what threads map at the same moment. With the last, what is
/// kept returns to the system.
///
/// For work that is done again and again with blocks of the same sizes.
#[derive(Debug)]
#[must_use = "nothing is kept once it is dropped"]
pub struct KeepFreed(());

impl KeepFreed {
    /// Keeps from now on.
    pub fn begin() -> KeepFreed {
        #[cfg(target_os = "linux")]
        large::begin_to_keep();
        KeepFreed(())
    }
}

impl Drop for KeepFreed {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        large::end_to_keep();
    }
}

#[cfg(target_os = "linux")]
mod large {
    use std::alloc::Layout;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    /// Allocations of at least this size, in bytes, are mapped separately.
    pub(super) const LEAST: usize = 4 << 20;

    /// Size and alignment of a huge page, in bytes.
    pub(super) const HUGE: usize = 2 << 20;

    /// Bytes of all blocks in use.
    static USED: AtomicUsize = AtomicUsize::new(0);

    /// What is kept of freed blocks.
    struct Kept {
        /// Those who want something kept.
        keepers: usize,
        /// The most bytes in use at once since the first of them began.
        most: usize,
        /// Mappings, aligned to huge pages: address and size.
        mappings: [(usize, usize); 64],
    }

    static KEPT: Mutex<Kept> = Mutex::new(Kept {
        keepers: 0,
        most: 0,
        mappings: [(0, 0); 64],
    });

    impl Kept {
        /// Unmaps the smallest mappings until used and kept bytes are at most what was used at once.
        fn shrink(&mut self) {
            let used = USED.load(Relaxed);
            self.most = self.most.max(used);
            let mut size: usize = self.mappings.iter().map(|m| m.1).sum();
            while size > self.most - used {
                let all = self.mappings.iter_mut().filter(|m| m.1 > 0);
                let Some(smallest) = all.min_by_key(|m| m.1) else {
                    return;
                };
                size -= smallest.1;
                // SAFETY: nothing uses it, and it is taken off the list.
                unsafe { unmap(std::mem::take(smallest)) };
            }
        }

        fn shrink_to_nothing(&mut self) {
            for mapping in &mut self.mappings {
                // SAFETY: nothing uses it, and it is taken off the list.
                unsafe { unmap(std::mem::take(mapping)) };
            }
        }

        /// A mapping of this size, and how many of its first bytes may not be zero: part of the smallest that is large
        /// enough, or else the largest, with fresh pages after it. None if none is kept, or there is no memory.
        fn take(&mut self, size: usize) -> Option<(*mut u8, usize)> {
            let all = self.mappings.iter_mut().filter(|m| m.1 > 0);
            let best = all.min_by_key(|m| (m.1 < size, m.1.abs_diff(size)))?;
            let (start, kept) = std::mem::take(best);
            if kept >= size {
                let end = size.next_multiple_of(HUGE).min(kept);
                // SAFETY: the rest of the last huge page is off the list, and not in the block.
                unsafe { unmap((start + size, end - size)) };
                *best = (start + end, kept - end);
                return Some((start as *mut u8, size));
            }
            // SAFETY: nothing uses it.
            let block = unsafe { remap(start as *mut u8, kept, size) };
            if block.is_null() {
                *best = (start, kept);
                return None;
            }
            Some((block, kept))
        }

        /// Keeps a mapping if there is a place for it, or one with a smaller mapping. Returns what is not kept.
        fn keep(&mut self, mapping: (usize, usize)) -> (usize, usize) {
            let smallest = self.mappings.iter_mut().min_by_key(|m| m.1);
            match smallest.filter(|smallest| self.keepers > 0 && smallest.1 < mapping.1) {
                Some(smallest) => std::mem::replace(smallest, mapping),
                None => mapping,
            }
        }
    }

    /// Returns a mapping to the system, unless it is empty.
    ///
    /// # Safety
    /// Nothing uses it.
    unsafe fn unmap((start, size): (usize, usize)) {
        if size > 0 {
            // SAFETY: the caller's promise.
            unsafe { libc::munmap(start as *mut _, size) };
        }
    }

    pub(super) fn begin_to_keep() {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.keepers == 0 {
            kept.most = USED.load(Relaxed);
        }
        kept.keepers += 1;
    }

    pub(super) fn end_to_keep() {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.keepers -= 1;
        if kept.keepers == 0 {
            kept.shrink_to_nothing();
        }
    }

    pub(super) fn is(layout: Layout) -> bool {
        layout.size() >= LEAST && layout.align() <= HUGE
    }

    /// Bytes that a block takes: a multiple of any machine's small page.
    fn mapped(size: usize) -> Option<usize> {
        size.checked_next_multiple_of(64 << 10)
    }

    /// Fresh pages, zeroed and aligned to a huge page; null if there is no memory.
    fn map(size: usize) -> *mut u8 {
        let Some(reserved) = size.checked_add(HUGE) else {
            return null_mut();
        };
        // SAFETY: a new private mapping; what is given back below lies within it and outside of what is
        // returned; advice changes no contents.
        unsafe {
            let start = libc::mmap(
                null_mut(),
                reserved,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if start == libc::MAP_FAILED {
                return null_mut();
            }
            let before = start.align_offset(HUGE);
            let block = start.add(before);
            if before > 0 {
                libc::munmap(start, before);
            }
            if before < HUGE {
                libc::munmap(block.add(size), HUGE - before);
            }
            libc::madvise(block, size, libc::MADV_HUGEPAGE);
            block.cast()
        }
    }

    /// Gives a mapping another size: where it is, or by moving its pages to a new place. Null if there is no
    /// memory; the mapping stays as it was then.
    ///
    /// # Safety
    /// The mapping was made here, and nothing else uses it.
    unsafe fn remap(block: *mut u8, old: usize, new: usize) -> *mut u8 {
        // SAFETY: the old mapping is the caller's. What the second call replaces is a mapping that nothing uses yet. If
        // that call fails, it may have unmapped this already, and so it is left alone: it has no pages.
        unsafe {
            if libc::mremap(block.cast(), old, new, 0) != libc::MAP_FAILED {
                return block;
            }
            let place = map(new);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            if place.is_null()
                || libc::mremap(block.cast(), old, new, flags, place) == libc::MAP_FAILED
            {
                return null_mut();
            }
            place
        }
    }

    /// A block for `size` bytes, and how many of its first bytes may not be zero; null if there is no memory.
    ///
    /// Who finds the list taken maps fresh pages, also in a process that was forked meanwhile.
    pub(super) fn alloc(size: usize) -> (*mut u8, usize) {
        let Some(size) = mapped(size) else {
            return (null_mut(), 0);
        };
        let mut kept = KEPT.try_lock().ok();
        let taken = kept.as_mut().and_then(|kept| kept.take(size));
        let block = taken.unwrap_or_else(|| (map(size), 0));
        if !block.0.is_null() {
            USED.fetch_add(size, Relaxed);
            if let Some(kept) = &mut kept {
                kept.shrink();
            }
        }
        block
    }

    /// # Safety
    /// The block was made here, for `size` bytes, and nothing uses it any more.
    pub(super) unsafe fn dealloc(block: *mut u8, size: usize) {
        let Some(size) = mapped(size) else { return };
        let mapping = (block as usize, size);
        let kept = KEPT.try_lock();
        USED.fetch_sub(size, Relaxed);
        let left = kept.map_or(mapping, |mut kept| kept.keep(mapping));
        // SAFETY: nothing uses the block, or a mapping that was kept.
        unsafe { unmap(left) };
    }

    /// A block of another size with the contents of this, which is left alone if there is no memory: null then.
    ///
    /// # Safety
    /// The block was made here, for `size` bytes, and nothing else uses it.
    pub(super) unsafe fn realloc(block: *mut u8, size: usize, new_size: usize) -> *mut u8 {
        let (Some(old), Some(new)) = (mapped(size), mapped(new_size)) else {
            return null_mut();
        };
        // SAFETY: the caller's mapping.
        let block = unsafe { remap(block, old, new) };
        if !block.is_null() {
            USED.fetch_add(new.wrapping_sub(old), Relaxed);
            if let Ok(mut kept) = KEPT.try_lock() {
                kept.shrink();
            }
        }
        block
    }

    /// Returns what is kept to the system. Who has the list may be doing that, and is waited for, but not forever: in a
    /// process that was forked meanwhile nobody has it.
    pub(super) fn keep_nothing() {
        for _ in 0..100 {
            match KEPT.try_lock() {
                Ok(mut kept) => return kept.shrink_to_nothing(),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// What `alloc` returns, called a second time without what is kept if there is no memory.
fn or_without_kept(alloc: impl Fn() -> *mut u8) -> *mut u8 {
    let block = alloc();
    #[cfg(target_os = "linux")]
    if block.is_null() {
        large::keep_nothing();
        return alloc();
    }
    block
}

// SAFETY: large layouts are mapped and unmapped here, all others are the system's; a layout is large or
// not by its size and alignment alone, which are the same when it is freed.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        or_without_kept(|| {
            #[cfg(target_os = "linux")]
            if large::is(layout) {
                return large::alloc(layout.size()).0;
            }
            // SAFETY: the caller's promises are handed on.
            unsafe { System.alloc(layout) }
        })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        or_without_kept(|| {
            #[cfg(target_os = "linux")]
            if large::is(layout) {
                let (block, dirty) = large::alloc(layout.size());
                // SAFETY: the block has as many bytes.
                unsafe { block.write_bytes(0, dirty) };
                return block;
            }
            // SAFETY: the caller's promises are handed on.
            unsafe { System.alloc_zeroed(layout) }
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        #[cfg(target_os = "linux")]
        if large::is(layout) {
            // SAFETY: the caller's promises are handed on.
            unsafe { large::dealloc(block, layout.size()) };
            return;
        }
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        #[cfg(target_os = "linux")]
        if large::is(layout) != (new_size >= large::LEAST) {
            // SAFETY: the caller promises that the new size is valid for the alignment, and that the
            // old block holds as many bytes as its layout says.
            unsafe {
                let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
                let new = self.alloc(new_layout);
                if !new.is_null() {
                    new.copy_from_nonoverlapping(block, layout.size().min(new_size));
                    self.dealloc(block, layout);
                }
                return new;
            }
        }
        or_without_kept(|| {
            #[cfg(target_os = "linux")]
            if large::is(layout) {
                // SAFETY: the caller's promises are handed on.
                return unsafe { large::realloc(block, layout.size(), new_size) };
            }
            // SAFETY: the caller's promises are handed on.
            unsafe { System.realloc(block, layout, new_size) }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Tests share the list of unused mappings: one runs at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn blocks_keep_their_contents_across_sizes() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = [
            1,
            4096,
            (4 << 20) - 1,
            4 << 20,
            (4 << 20) + 1,
            9 << 20,
            1000,
            5 << 20,
        ];
        let mut layout = Layout::from_size_align(64, 64).unwrap();
        // SAFETY: every block is written and read within its layout, and freed once with it.
        unsafe {
            let mut block = HugePages.alloc_zeroed(layout);
            assert!((0..64).all(|i| *block.add(i) == 0));
            *block = 77;
            for size in sizes {
                block = HugePages.realloc(block, layout, size);
                layout = Layout::from_size_align(size, 64).unwrap();
                assert!(!block.is_null() && block.addr().is_multiple_of(64));
                assert_eq!(*block, 77);
                *block.add(size - 1) = 77;
                *block = 77;
            }
            HugePages.dealloc(block, layout);
            let large = Layout::from_size_align(6 << 20, 1 << 16).unwrap();
            let block = HugePages.alloc_zeroed(large);
            assert!(block.addr().is_multiple_of(1 << 16));
            assert!((0..6 << 20).all(|i| *block.add(i) == 0));
            HugePages.dealloc(block, large);
        }
    }

    /// A field of this process's `/proc/self/status`, in bytes.
    #[cfg(target_os = "linux")]
    fn status(field: &str) -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        let kilobytes = line.split_whitespace().nth(1).unwrap();
        kilobytes.parse::<usize>().unwrap() << 10
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn large_blocks_move_without_a_copy() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let size = 64 << 20;
        let layout = Layout::from_size_align(size, 16).unwrap();
        // SAFETY: every block is written and read within its layout, and freed once with it. The neighbour is
        // mapped where nothing is.
        unsafe {
            let block = HugePages.alloc(layout);
            block.write_bytes(3, size);
            *block = 1;
            *block.add(size - 1) = 2;
            let neighbour = libc::mmap(
                block.add(size).cast(),
                4096,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            // The peak so far is forgotten.
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
            let before = status("VmRSS:");
            let moved = HugePages.realloc(block, layout, 2 * size);
            assert!(status("VmHWM:") < before + size / 2);
            assert!(moved != block && moved.addr().is_multiple_of(large::HUGE));
            assert_eq!([*moved, *moved.add(1), *moved.add(size - 1)], [1, 3, 2]);
            assert_eq!([*moved.add(size), *moved.add(2 * size - 1)], [0, 0]);
            let grown = Layout::from_size_align(2 * size, 16).unwrap();
            let shrunk = HugePages.realloc(moved, grown, size / 2);
            assert_eq!(shrunk, moved);
            assert_eq!([*moved, *moved.add(size / 2 - 1)], [1, 3]);
            HugePages.dealloc(shrunk, Layout::from_size_align(size / 2, 16).unwrap());
            libc::munmap(neighbour, 4096);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn later_blocks_take_the_pages_of_earlier_ones() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = |size| Layout::from_size_align(size, 16).unwrap();
        let (whole, part) = (layout(256 << 20), layout((96 << 20) + 1));
        let resident = || status("VmRSS:");
        // SAFETY: every block is written and read within its layout, and freed once with it.
        unsafe {
            let is_zero = |block: *mut u8| (0..part.size()).all(|i| *block.add(i) == 0);
            let keep = KeepFreed::begin();
            let also = KeepFreed::begin();
            let block = HugePages.alloc(whole);
            block.write_bytes(3, whole.size());
            let before = resident();
            HugePages.dealloc(block, whole);
            assert!(resident() + (32 << 20) > before);
            let first = HugePages.alloc(part);
            let second = HugePages.alloc_zeroed(part);
            assert_eq!([*first, *first.add(part.size() - 1)], [3, 3]);
            assert!(is_zero(second));
            // What is left is smaller than this, and grows.
            let third = HugePages.alloc_zeroed(part);
            assert!(third.addr().is_multiple_of(large::HUGE) && is_zero(third));
            third.write_bytes(4, part.size());
            assert_eq!([*first, *second, *second.add(part.size() - 1)], [3, 0, 0]);
            assert!(resident() < before + (64 << 20));
            for block in [first, second, third] {
                HugePages.dealloc(block, part);
            }
            drop(also);
            assert!(resident() + (64 << 20) > before);
            drop(keep);
            assert!(resident() + (192 << 20) < before);
            let block = HugePages.alloc(whole);
            block.write_bytes(3, whole.size());
            HugePages.dealloc(block, whole);
            assert!(resident() + (192 << 20) < before);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_kept_makes_room_for_others() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = |size| Layout::from_size_align(size, 16).unwrap();
        let (small, large) = (layout(64 << 20), layout(160 << 20));
        let before = status("VmRSS:");
        let beyond = || status("VmRSS:").saturating_sub(before) >> 20;
        let _keep = KeepFreed::begin();
        // SAFETY: every block is written within its layout, and freed once with it.
        unsafe {
            for _ in 0..2 {
                let blocks = [(); 3].map(|()| HugePages.alloc(small));
                blocks.iter().for_each(|b| b.write_bytes(1, small.size()));
                blocks.iter().for_each(|b| HugePages.dealloc(*b, small));
                // One of the three grows, and the others are more than may be kept beside it.
                let block = HugePages.alloc(large);
                block.write_bytes(1, large.size());
                assert!((150..224).contains(&beyond()), "{} MiB", beyond());
                HugePages.dealloc(block, large);
            }
            let block = HugePages.alloc(small);
            let grown = HugePages.realloc(block, small, large.size());
            assert!(!grown.is_null());
            grown.write_bytes(1, large.size());
            assert!((150..224).contains(&beyond()), "{} MiB", beyond());
            HugePages.dealloc(grown, large);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn more_blocks_than_can_be_kept() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = |i: usize| Layout::from_size_align((4 << 20) + (i << 16), 16).unwrap();
        let keep = KeepFreed::begin();
        // SAFETY: every block is written and read within its layout, and freed once with it.
        unsafe {
            for _ in 0..2 {
                let blocks: Vec<_> = (0..100).map(|i| HugePages.alloc(layout(i))).collect();
                for (i, block) in blocks.iter().enumerate() {
                    block.write_bytes(i as u8, layout(i).size());
                }
                for (i, block) in blocks.iter().enumerate() {
                    let last = block.add(layout(i).size() - 1);
                    assert_eq!([**block, *last], [i as u8; 2]);
                    HugePages.dealloc(*block, layout(i));
                }
            }
        }
        drop(keep);
    }

    #[test]
    fn what_cannot_be_had_is_null() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = Layout::from_size_align(isize::MAX as usize - 8191, 16).unwrap();
        // SAFETY: the result is only compared.
        assert!(unsafe { HugePages.alloc(layout) }.is_null());
    }
}
