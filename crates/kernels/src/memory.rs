//! An allocator that asks for huge pages where they pay.
//!
//! The first touch of a page of 4 KiB costs a microsecond or more on a virtual machine, and a run touches
//! tens of thousands of them; random access to tens of megabytes misses the translation cache besides. Linux
//! gives pages of 2 MiB on request.
//!
//! mimalloc in its place is slower, with huge pages too: it asks for them for everything or for nothing. Both are
//! compared in `docs/performance.md`.

use std::alloc::{GlobalAlloc, Layout, System};

/// Allocations of at least this size, in bytes, are mapped separately.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 << 20;

/// Size and alignment of a huge page, in bytes.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// The system's allocator, except that large blocks are aligned to huge pages and request them. They are zero
/// when fresh and return to the system when freed.
pub struct HugePages;

#[cfg(target_os = "linux")]
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= HUGE
}

/// Bytes that a large block takes: a multiple of any machine's small page.
#[cfg(target_os = "linux")]
fn mapped(size: usize) -> Option<usize> {
    size.checked_next_multiple_of(64 << 10)
}

/// A fresh mapping of whole pages, zeroed and aligned to a huge page; null if there is no memory.
#[cfg(target_os = "linux")]
fn map(size: usize) -> *mut u8 {
    let Some((size, reserved)) = mapped(size).and_then(|s| Some((s, s.checked_add(HUGE)?))) else {
        return std::ptr::null_mut();
    };
    // SAFETY: a new private mapping; what is given back below lies within it and outside of what is
    // returned; advice changes no contents.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            reserved,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if start == libc::MAP_FAILED {
            return std::ptr::null_mut();
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

/// Gives a large block another size: where it is, or by moving its pages to a new place. Null if there is no
/// memory; the block stays as it was then.
///
/// # Safety
/// The block was made here, for `size` bytes, and nothing else uses it.
#[cfg(target_os = "linux")]
unsafe fn remap(block: *mut u8, size: usize, new_size: usize) -> *mut u8 {
    let (Some(old), Some(new)) = (mapped(size), mapped(new_size)) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the old mapping is the caller's. What the second call replaces is a mapping that nothing uses yet. If
    // that call fails, it may have unmapped this already, and so it is left alone: it has no pages.
    unsafe {
        if libc::mremap(block.cast(), old, new, 0) != libc::MAP_FAILED {
            return block;
        }
        let place = map(new_size);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        if place.is_null() || libc::mremap(block.cast(), old, new, flags, place) == libc::MAP_FAILED
        {
            return std::ptr::null_mut();
        }
        place
    }
}

// SAFETY: large layouts are mapped and unmapped here, all others are the system's; a layout is large or
// not by its size and alignment alone, which are the same when it is freed.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        #[cfg(target_os = "linux")]
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        #[cfg(target_os = "linux")]
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        #[cfg(target_os = "linux")]
        if is_large(layout)
            && let Some(size) = mapped(layout.size())
        {
            // SAFETY: `map` made this mapping for the same size.
            unsafe { libc::munmap(block.cast(), size) };
            return;
        }
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        #[cfg(target_os = "linux")]
        if is_large(layout) && new_size >= LARGE {
            // SAFETY: `map` or `remap` made this block for its size.
            return unsafe { remap(block, layout.size(), new_size) };
        }
        #[cfg(target_os = "linux")]
        if is_large(layout) || new_size >= LARGE {
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
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_contents_across_sizes() {
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
            assert!(moved != block && moved.addr().is_multiple_of(HUGE));
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

    #[test]
    fn what_cannot_be_had_is_null() {
        let layout = Layout::from_size_align(isize::MAX as usize - 8191, 16).unwrap();
        // SAFETY: the result is only compared.
        assert!(unsafe { HugePages.alloc(layout) }.is_null());
    }
}
