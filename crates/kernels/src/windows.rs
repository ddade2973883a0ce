//! What vesica needs of Windows that the standard library does not have: access control lists, locks that keep nobody from
//! reading, waiting for a socket, the console's events, memory and space.
//!
//! It is for those who know what they ask of it: [`Descriptor`] says who may do what.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, AsRawSocket, AsSocket, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    ERROR_INSUFFICIENT_BUFFER, ERROR_LOCK_VIOLATION, GENERIC_READ, GENERIC_WRITE, HANDLE,
    INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Networking::WinSock::{
    POLLRDNORM, POLLWRNORM, SOCKET_ERROR, WSAPOLLFD, WSAPoll,
};
use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetKernelObjectSecurity, GetLengthSid, GetTokenInformation,
    OWNER_SECURITY_INFORMATION, SECURITY_ATTRIBUTES, SetKernelObjectSecurity, TOKEN_QUERY,
    TOKEN_USER, TokenUser,
};
use windows_sys::Win32::Storage::FileSystem::{
    CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_ATTRIBUTE_NORMAL, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, GetDiskFreeSpaceExW,
    LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, MoveFileExW, WRITE_DAC,
    WriteFile,
};
use windows_sys::Win32::System::Console::{GetStdHandle, STD_ERROR_HANDLE, SetConsoleCtrlHandler};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcessToken, TerminateProcess,
};
use windows_sys::core::BOOL;

pub use crate::descriptor::Descriptor;

/// The system's error for a call that returned 0.
fn checked(returned: BOOL) -> io::Result<()> {
    match returned {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Units of UTF-16 from which on a directory's path has to be in the form without a limit.
const LONG: usize = 248;

/// A path as the system takes it: UTF-16, with a zero behind it. A long one is written in the form that has no limit, as the
/// standard library does.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let units = |path: &Path| path.as_os_str().encode_wide().collect::<Vec<u16>>();
    let mut wide = units(path);
    if wide.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // A short one may be of a directory whose own is long.
    let absolute = units(&std::path::absolute(path)?);
    if absolute.len() >= LONG {
        let starts = |start: &str| absolute.starts_with(&start.encode_utf16().collect::<Vec<_>>());
        let (start, rest) = match () {
            // It is in this form, or a device's.
            _ if starts(r"\\?\") || starts(r"\\.\") => ("", &absolute[..]),
            _ if starts(r"\\") => (r"\\?\UNC\", &absolute[2..]),
            _ => (r"\\?\", &absolute[..]),
        };
        wide = start.encode_utf16().chain(rest.iter().copied()).collect();
    }
    wide.push(0);
    Ok(wide)
}

/// Memory for what the system wants aligned to pointers.
struct Aligned(Vec<u64>);

impl Aligned {
    fn zeroed(bytes: usize) -> Aligned {
        Aligned(vec![0; bytes.div_ceil(size_of::<u64>())])
    }

    fn of(descriptor: &Descriptor) -> Aligned {
        let bytes = descriptor.to_bytes();
        let mut aligned = Aligned::zeroed(bytes.len());
        for (word, bytes) in aligned.0.iter_mut().zip(bytes.chunks(size_of::<u64>())) {
            let mut whole = [0; size_of::<u64>()];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        aligned
    }

    fn pointer(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// Calls what fills a buffer, and says how many bytes it needs, until they fit.
fn filled(fill: impl Fn(*mut c_void, u32, &mut u32) -> BOOL) -> io::Result<Aligned> {
    let mut needed = 256;
    loop {
        let length = needed;
        let mut buffer = Aligned::zeroed(length as usize);
        match checked(fill(buffer.pointer(), length, &mut needed)) {
            Ok(()) => return Ok(buffer),
            Err(e)
                if e.raw_os_error() == Some(ERROR_INSUFFICIENT_BUFFER as i32)
                    && needed > length => {}
            Err(e) => return Err(e),
        }
    }
}

/// The descriptor of an open file or directory: its owner and its list. The handle has to have the right to read it, which
/// handles for reading and for writing have.
///
/// # Errors
/// The file system's.
pub fn descriptor(of: &File) -> io::Result<Descriptor> {
    let information = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
    let filled = filled(|buffer, length, needed| {
        // SAFETY: the handle is open, and the buffer has `length` bytes, aligned to 8.
        unsafe { GetKernelObjectSecurity(of.as_raw_handle(), information, buffer, length, needed) }
    })?;
    Descriptor::from_bytes(&filled.bytes()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "a security descriptor is damaged",
        )
    })
}

/// Gives an open file the list of a descriptor in the place of its own. The handle has to have the right to do that, which
/// those of [`create_file`] have.
///
/// # Errors
/// The file system's.
pub fn set_list(of: &File, descriptor: &Descriptor) -> io::Result<()> {
    let mut aligned = Aligned::of(descriptor);
    // SAFETY: the handle is open, and all parts of the descriptor are within it.
    checked(unsafe {
        SetKernelObjectSecurity(
            of.as_raw_handle(),
            DACL_SECURITY_INFORMATION,
            aligned.pointer(),
        )
    })
}

/// The descriptor as an argument for what creates something.
fn attributes(descriptor: &mut Aligned) -> SECURITY_ATTRIBUTES {
    SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: descriptor.pointer(),
        bInheritHandle: 0,
    }
}

/// Creates a file that is not there yet, with the owner and the list of a descriptor from its first moment on, for reading,
/// writing and changing its list. Others may open it as those of the standard library. No link of this name is followed.
///
/// # Errors
/// The file system's: [`io::ErrorKind::AlreadyExists`] if there is anything of this name.
pub fn create_file(path: &Path, descriptor: &Descriptor) -> io::Result<File> {
    let path = wide(path)?;
    let mut aligned = Aligned::of(descriptor);
    let attributes = attributes(&mut aligned);
    // SAFETY: the path ends with a zero, all parts of the descriptor are within it, and everything outlives the call.
    let handle = unsafe {
        CreateFileW(
            path.as_ptr(),
            GENERIC_READ | GENERIC_WRITE | WRITE_DAC,
            FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
            &attributes,
            CREATE_NEW,
            FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT,
            null_mut(),
        )
    };
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is a file's and nobody else's.
    Ok(unsafe { File::from_raw_handle(handle) })
}

/// Gives a file another name, which nothing else has.
///
/// # Errors
/// The file system's: [`io::ErrorKind::AlreadyExists`] if there is anything of this name.
pub fn rename_new(file: &Path, name: &Path) -> io::Result<()> {
    let (file, name) = (wide(file)?, wide(name)?);
    // SAFETY: both paths end with a zero, and outlive the call.
    checked(unsafe { MoveFileExW(file.as_ptr(), name.as_ptr(), 0) })
}

/// Creates a directory that is not there yet, with the owner and the list of a descriptor from its first moment on.
///
/// # Errors
/// The file system's: [`io::ErrorKind::AlreadyExists`] if there is anything of this name.
pub fn create_directory(path: &Path, descriptor: &Descriptor) -> io::Result<()> {
    let path = wide(path)?;
    let mut aligned = Aligned::of(descriptor);
    let attributes = attributes(&mut aligned);
    // SAFETY: as for a file.
    checked(unsafe { CreateDirectoryW(path.as_ptr(), &attributes) })
}

/// The identifier of the user whom this process runs for.
///
/// # Errors
/// The system's.
pub fn user() -> io::Result<Vec<u8>> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the handle of this process needs no closing, and `token` outlives the call.
    checked(unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut token) })?;
    // SAFETY: the handle is open and nobody else's.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    let filled = filled(|buffer, length, needed| {
        // SAFETY: the handle is open, and the buffer has `length` bytes, aligned to 8.
        unsafe { GetTokenInformation(token.as_raw_handle(), TokenUser, buffer, length, needed) }
    })?;
    // SAFETY: the call has filled the buffer with this structure, whose identifier is in the same buffer, which is still
    // there; the system says how long the identifier is.
    unsafe {
        let user = filled.0.as_ptr().cast::<TOKEN_USER>().read().User.Sid;
        let length = GetLengthSid(user) as usize;
        Ok(std::slice::from_raw_parts(user.cast::<u8>(), length).to_vec())
    }
}

/// Locks a file until it is closed. Returns whether no other handle had locked it so. The lock is on a byte that no file
/// has: a lock on content would keep others from reading that.
///
/// # Errors
/// The file system's.
pub fn try_lock(file: &File) -> io::Result<bool> {
    let mut place = OVERLAPPED {
        Anonymous: OVERLAPPED_0 {
            Anonymous: OVERLAPPED_0_0 {
                Offset: 0,
                OffsetHigh: i32::MAX as u32,
            },
        },
        ..OVERLAPPED::default()
    };
    let flags = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    // SAFETY: the handle is open and synchronous, so that the call is over when it returns.
    match checked(unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &mut place) }) {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(ERROR_LOCK_VIOLATION as i32) => Ok(false),
        Err(e) => Err(e),
    }
}

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Something can be read, somebody has connected, or the connection has ended.
    Readable,
    /// Something can be written, or the connection has ended.
    Writable,
}

/// Waits for a socket, or so long. Returns whether it is as it was waited for.
///
/// # Errors
/// The system's.
pub fn wait(socket: &impl AsSocket, until: Until, most: Duration) -> io::Result<bool> {
    let mut waited = WSAPOLLFD {
        fd: socket.as_socket().as_raw_socket() as usize,
        events: match until {
            Until::Readable => POLLRDNORM,
            Until::Writable => POLLWRNORM,
        },
        revents: 0,
    };
    // A wait that is rounded down to nothing would be called again and again.
    let most = most.as_millis().clamp(1, i32::MAX as u128) as i32;
    // SAFETY: one socket, open during the call, and what is said of it.
    match unsafe { WSAPoll(&mut waited, 1, most) } {
        SOCKET_ERROR => Err(io::Error::last_os_error()),
        ready => Ok(ready > 0),
    }
}

type Handler = Box<dyn Fn(u32) + Send + Sync>;

static HANDLER: OnceLock<Handler> = OnceLock::new();

unsafe extern "system" fn arrived(event: u32) -> BOOL {
    if let Some(handler) = HANDLER.get() {
        handler(event);
    }
    1
}

/// Has a thread of the system call `handler` with the number of each event of the console: Ctrl-C is 0, Ctrl-Break 1, the
/// end of the console 2, of the session 5, of the system 6. After the last three the process ends once it returns, and
/// after some seconds in any case. Only the first handler counts.
///
/// # Errors
/// The system's.
pub fn on_console_event(handler: impl Fn(u32) + Send + Sync + 'static) -> io::Result<()> {
    if HANDLER.set(Box::new(handler)).is_err() {
        return Ok(());
    }
    // SAFETY: the function lives as long as the process, and may be called by any thread.
    checked(unsafe { SetConsoleCtrlHandler(Some(arrived), 1) })
}

/// Ends the process at once with words on standard error, without running or allocating anything.
pub(crate) fn end(words: &str, code: u8) {
    let mut written = 0;
    // SAFETY: the words are valid for their length; a handle that is none makes the call fail. The handle of this process
    // needs no closing.
    unsafe {
        let error = GetStdHandle(STD_ERROR_HANDLE);
        WriteFile(
            error,
            words.as_ptr(),
            words.len() as u32,
            &mut written,
            null_mut(),
        );
        TerminateProcess(GetCurrentProcess(), code.into());
    }
}

/// The most memory that this process has held at once, in bytes.
pub fn peak_memory() -> Option<u64> {
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let length = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the handle of this process needs no closing, and the structure has the length that is given.
    let returned = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &mut counters, length) };
    checked(returned).ok()?;
    u64::try_from(counters.PeakWorkingSetSize).ok()
}

/// The memory of this machine, in bytes.
pub fn memory() -> Option<u64> {
    let mut status = MEMORYSTATUSEX {
        dwLength: size_of::<MEMORYSTATUSEX>() as u32,
        ..MEMORYSTATUSEX::default()
    };
    // SAFETY: the structure says how long it is, and outlives the call.
    checked(unsafe { GlobalMemoryStatusEx(&mut status) }).ok()?;
    Some(status.ullTotalPhys)
}

/// Bytes that this user can write in a directory.
pub fn free_space(directory: &Path) -> Option<u64> {
    let path = wide(directory).ok()?;
    let mut free = 0;
    // SAFETY: the path ends with a zero; what is not asked for may be null.
    let returned = unsafe { GetDiskFreeSpaceExW(path.as_ptr(), &mut free, null_mut(), null_mut()) };
    checked(returned).ok()?;
    Some(free)
}
