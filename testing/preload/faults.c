/* Makes one system call of a process fail, slows calls down, or records what processes do to files: preload it (LD_PRELOAD)
 * into the command under test.
 *
 * File calls are caught by seccomp, which traps those of the C library, of the standard library and inline system
 * calls alike, and hands them to a signal handler. Sockets and pipes never fail, except for standard output.
 * Allocations of 1 MiB or more are caught where the C library offers them.
 *
 * FAULTS_STATE names a file of `struct state`, which this library fills and which outlives the process.
 * FAULTS_PLAN is "CLASS NUMBER ERRNO MODE", or empty: count only. Calls of a class are counted from 1. The modes:
 *   once     call NUMBER fails
 *   onward   so do all after it
 *   each     each call fails the first time, and works when the same thread tries again (ERRNO is EINTR)
 *   short    each read and write moves half of the bytes that it could
 *   slow     each call takes NUMBER milliseconds longer
 *
 * FAULTS_LOG names a file to which each call is added that has succeeded, once it has: a `struct log`, then for each
 * call a `struct entry`. Processes may share it. What one does after it has heard from another is behind it.
 *
 * Linux on x86-64. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum class { OPEN, READ, WRITE, SYNC, RENAME, UNLINK, LINK, LOCK, OTHER, ALLOCATE, CLASSES };

static const char *const names[CLASSES] = {"open",   "read", "write", "sync",  "rename",
                                           "unlink", "link", "lock",  "other", "allocate"};

enum mode { ONCE, ONWARD, EACH, SHORT, SLOW };

static const char *const modes[] = {"once", "onward", "each", "short", "slow"};

struct state {
    uint64_t seen[CLASSES];
    uint64_t struck;
    char place[256]; /* the first call that failed: its class and its path */
};

struct log {
    uint64_t used; /* bytes, these among them */
};

#define LOG_BYTES ((uint64_t)1 << 28)

/* A call, followed by its path or that of its descriptor, its second path, and the bytes that it has written. */
struct entry {
    uint64_t size; /* with what follows, a multiple of 8; 0 if the process was killed while it wrote this */
    uint64_t process;
    int64_t number, arguments[6], result;
    uint64_t inode, mode, offset; /* of the file; where in it the call ended */
    uint64_t lengths[3];
};

/* Where a call's first argument is a path, where it is a descriptor, and where its path follows a directory's
 * descriptor. */
enum subject { PATH, DESCRIPTOR, PATH_AT };

static const struct call {
    int number;
    enum class class;
    enum subject subject;
} calls[] = {
    {SYS_open, OPEN, PATH},           {SYS_creat, OPEN, PATH},
    {SYS_openat, OPEN, PATH_AT},      {SYS_openat2, OPEN, PATH_AT},
    {SYS_read, READ, DESCRIPTOR},     {SYS_pread64, READ, DESCRIPTOR},
    {SYS_readv, READ, DESCRIPTOR},    {SYS_preadv, READ, DESCRIPTOR},
    {SYS_getdents64, READ, DESCRIPTOR},
    {SYS_write, WRITE, DESCRIPTOR},   {SYS_pwrite64, WRITE, DESCRIPTOR},
    {SYS_writev, WRITE, DESCRIPTOR},  {SYS_pwritev, WRITE, DESCRIPTOR},
    {SYS_fallocate, WRITE, DESCRIPTOR},
    {SYS_sendto, WRITE, DESCRIPTOR},  {SYS_sendmsg, WRITE, DESCRIPTOR},
    /* Descriptors of what is read first: the copy fails as a read does. */
    {SYS_sendfile, WRITE, DESCRIPTOR}, {SYS_copy_file_range, READ, DESCRIPTOR},
    {SYS_fsync, SYNC, DESCRIPTOR},    {SYS_fdatasync, SYNC, DESCRIPTOR},
    {SYS_rename, RENAME, PATH},       {SYS_renameat, RENAME, PATH_AT},
    {SYS_renameat2, RENAME, PATH_AT}, {SYS_unlink, UNLINK, PATH},
    {SYS_unlinkat, UNLINK, PATH_AT},  {SYS_rmdir, UNLINK, PATH},
    {SYS_link, LINK, PATH},           {SYS_linkat, LINK, PATH_AT},
    {SYS_mkdir, OTHER, PATH},         {SYS_mkdirat, OTHER, PATH_AT},
    {SYS_ftruncate, OTHER, DESCRIPTOR}, {SYS_fchmod, OTHER, DESCRIPTOR},
    {SYS_flock, LOCK, DESCRIPTOR},
};

#define CALLS (sizeof calls / sizeof *calls)

static struct state nowhere, *state = &nowhere;
static struct log *log;
static struct {
    enum class class;
    uint64_t number;
    int error;
    enum mode mode;
} plan = {CLASSES, 0, 0, ONCE};

/* Whether this thread's last call of the class failed; for the mode `each`. */
static __thread int failed __attribute__((tls_model("initial-exec")));

/* The one place whose system calls the filter lets through. */
long faults_system_call(long number, long a, long b, long c, long d, long e, long f);
extern const char faults_after_call[];
__asm__(".text\n"
        ".globl faults_system_call\n"
        ".hidden faults_system_call\n"
        ".type faults_system_call, @function\n"
        "faults_system_call:\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "mov %rdx, %rsi\n"
        "mov %rcx, %rdx\n"
        "mov %r8, %r10\n"
        "mov %r9, %r8\n"
        "mov 8(%rsp), %r9\n"
        "syscall\n"
        ".globl faults_after_call\n"
        ".hidden faults_after_call\n"
        "faults_after_call:\n"
        "ret\n"
        ".size faults_system_call, . - faults_system_call\n");

/* The path of a descriptor, without a zero at its end. */
static size_t path_of(long descriptor, char *out, size_t room) {
    char link[40] = "/proc/self/fd/", digits[20];
    int count = 0;
    do
        digits[count++] = '0' + descriptor % 10;
    while ((descriptor /= 10) > 0);
    size_t end = strlen(link);
    while (count > 0)
        link[end++] = digits[--count];
    link[end] = 0;
    long length = faults_system_call(SYS_readlink, (long)link, (long)out, (long)room, 0, 0, 0);
    return length < 0 ? 0 : (size_t)length;
}

static void note(const struct call *call, const char *path, long descriptor) {
    if (__atomic_fetch_add(&state->struck, 1, __ATOMIC_SEQ_CST) != 0)
        return;
    size_t used = strlen(strcpy(state->place, names[plan.class]));
    state->place[used++] = ' ';
    size_t room = sizeof state->place - used - 1;
    if (path != NULL) {
        strncpy(state->place + used, path, room);
    } else if (call != NULL) {
        path_of(descriptor, state->place + used, room);
    }
}

static void give_up(const char *why) {
    fprintf(stderr, "faults: %s: %s\n", why, strerror(errno));
    _exit(99);
}

/* Counts a call, which a signal can interrupt or not; whether it is to fail. */
static int fails(enum class class, int is_interruptible) {
    uint64_t number = __atomic_add_fetch(&state->seen[class], 1, __ATOMIC_SEQ_CST);
    if (class != plan.class)
        return 0;
    switch (plan.mode) {
    case ONCE:
        return number == plan.number;
    case ONWARD:
        return number >= plan.number;
    case EACH:
        return is_interruptible && (failed = !failed);
    default:
        return 0;
    }
}

/* Whether a call on this descriptor counts. */
static int is_counted(enum class class, long descriptor) {
    struct stat there;
    if (class == WRITE && descriptor == STDOUT_FILENO)
        return 1;
    if (faults_system_call(SYS_fstat, descriptor, (long)&there, 0, 0, 0, 0) != 0)
        return 0;
    return S_ISREG(there.st_mode) || S_ISDIR(there.st_mode);
}

static int is_socket(long descriptor) {
    struct stat there;
    return faults_system_call(SYS_fstat, descriptor, (long)&there, 0, 0, 0, 0) == 0 && S_ISSOCK(there.st_mode);
}

/* The path that a call names, from the root. */
static size_t full_path(char *out, int directory, const char *path) {
    size_t used = 0;
    if (path[0] != '/') {
        if (directory != AT_FDCWD)
            used = path_of(directory, out, PATH_MAX);
        else
            used = (size_t)faults_system_call(SYS_readlink, (long)"/proc/self/cwd", (long)out, PATH_MAX, 0, 0, 0);
        out[used++] = '/';
    }
    size_t length = strlen(path);
    if (used + length >= PATH_MAX)
        give_up("a path is too long");
    memcpy(out + used, path, length + 1);
    return used + length;
}

static void record(const struct call *call, const long *arguments, long result) {
    char paths[2][2 * PATH_MAX];
    struct entry entry = {.number = call->number, .result = result};
    memcpy(entry.arguments, arguments, sizeof entry.arguments);
    entry.process = (uint64_t)faults_system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    int at = call->subject == PATH_AT, has_two = call->class == LINK || call->class == RENAME;
    if (call->subject == DESCRIPTOR)
        entry.lengths[0] = path_of(arguments[0], paths[0], PATH_MAX);
    else
        entry.lengths[0] = full_path(paths[0], at ? (int)arguments[0] : AT_FDCWD, (const char *)arguments[at]);
    if (has_two) {
        int directory = at ? (int)arguments[2] : AT_FDCWD;
        entry.lengths[1] = full_path(paths[1], directory, (const char *)arguments[at ? 3 : 1]);
    }
    struct stat there = {0};
    if (call->class == OPEN)
        faults_system_call(SYS_fstat, result, (long)&there, 0, 0, 0, 0);
    else if (call->subject == DESCRIPTOR)
        faults_system_call(SYS_fstat, arguments[0], (long)&there, 0, 0, 0, 0);
    else if (has_two)
        faults_system_call(SYS_lstat, (long)paths[1], (long)&there, 0, 0, 0, 0);
    entry.inode = there.st_ino;
    entry.mode = there.st_mode;
    struct iovec one = {(void *)arguments[1], (size_t)result}, *pieces = &one;
    if (S_ISREG(there.st_mode) && (call->class == READ || call->class == WRITE)) {
        int is_at_offset = call->number == SYS_pread64 || call->number == SYS_pwrite64;
        entry.offset = is_at_offset
                           ? (uint64_t)(arguments[3] + result)
                           : (uint64_t)faults_system_call(SYS_lseek, arguments[0], 0, SEEK_CUR, 0, 0, 0);
        if (call->class == WRITE)
            entry.lengths[2] = (uint64_t)result;
        if (call->number == SYS_writev)
            pieces = (struct iovec *)arguments[1];
    }
    entry.size = sizeof entry + entry.lengths[0] + entry.lengths[1] + entry.lengths[2];
    entry.size = (entry.size + 7) & ~(uint64_t)7;
    uint64_t start = __atomic_fetch_add(&log->used, entry.size, __ATOMIC_SEQ_CST);
    if (start + entry.size > LOG_BYTES)
        give_up("the log is full");
    char *out = (char *)log + start, *after = out + sizeof entry;
    memcpy(out + sizeof entry.size, (char *)&entry + sizeof entry.size, sizeof entry - sizeof entry.size);
    for (int i = 0; i < 2; i++) {
        memcpy(after, paths[i], entry.lengths[i]);
        after += entry.lengths[i];
    }
    for (uint64_t left = entry.lengths[2]; left > 0; pieces++) {
        uint64_t length = pieces->iov_len < left ? pieces->iov_len : left;
        memcpy(after, pieces->iov_base, length);
        after += length;
        left -= length;
    }
    __atomic_store_n((uint64_t *)out, entry.size, __ATOMIC_SEQ_CST);
}

static void trapped(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    long arguments[] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                        registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
    const struct call *call = calls;
    while (call < calls + CALLS && call->number != info->si_syscall)
        call++;
    if (call < calls + CALLS && (call->subject != DESCRIPTOR || is_counted(call->class, arguments[0]))) {
        /* Opening and reading a directory waits for nobody. */
        int flags = call->number == SYS_open ? arguments[1] : call->number == SYS_openat ? arguments[2] : 0;
        if (fails(call->class, call->number != SYS_getdents64 && !(flags & O_DIRECTORY))) {
            const char *path = call->subject == DESCRIPTOR ? NULL
                                                           : (const char *)arguments[call->subject == PATH_AT];
            note(call, path, arguments[0]);
            registers[REG_RAX] = -plan.error;
            return;
        }
        if (plan.mode == SLOW && call->class == plan.class) {
            struct timespec pause = {(time_t)(plan.number / 1000), (long)(plan.number % 1000) * 1000000};
            note(call, NULL, arguments[0]);
            faults_system_call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
        }
        if (plan.mode == SHORT && call->class == plan.class) {
            note(call, NULL, arguments[0]);
            switch (call->number) {
            case SYS_read:
            case SYS_pread64:
            case SYS_write:
            case SYS_pwrite64:
                arguments[2] = (arguments[2] + 1) / 2;
                break;
            case SYS_readv:
            case SYS_writev:
                arguments[2] = arguments[2] > 1 ? 1 : arguments[2];
                break;
            }
        }
    }
    int is_logged = log != NULL && call < calls + CALLS;
    if (is_logged && call->class == WRITE && is_socket(arguments[0])) {
        /* The answer may be here, and what follows from it logged, before this thread goes on. */
        record(call, arguments, 0);
        is_logged = 0;
    }
    long result = faults_system_call(info->si_syscall, arguments[0], arguments[1], arguments[2], arguments[3],
                                     arguments[4], arguments[5]);
    if (is_logged && result >= 0)
        record(call, arguments, result);
    registers[REG_RAX] = result;
}

static void install(void) {
    struct sock_filter filter[2 * CALLS + 10];
    size_t used = 0;
    uint64_t after = (uint64_t)(uintptr_t)faults_after_call;
#define ADD(...) filter[used++] = (struct sock_filter)__VA_ARGS__
#define LOAD(field, more) \
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field) + (more)))
    LOAD(arch, 0);
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    LOAD(instruction_pointer, 0);
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)after, 0, 3));
    LOAD(instruction_pointer, 4);
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(after >> 32), 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    LOAD(nr, 0);
    for (size_t i = 0; i < CALLS; i++) {
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].number, 0, 1));
        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
    }
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog program = {(unsigned short)used, filter};
    /* A handler of the process may interrupt this one, and call what is trapped. */
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        give_up("seccomp");
}

/* A file of this size, which outlives the process. */
static void *shared(const char *path, size_t size) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)size) != 0)
        give_up(path);
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        give_up(path);
    close(file);
    return mapped;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_STATE"), *text = getenv("FAULTS_PLAN"), *logged = getenv("FAULTS_LOG");
    if (path != NULL)
        state = shared(path, sizeof *state);
    if (logged != NULL) {
        log = shared(logged, LOG_BYTES);
        uint64_t empty = 0;
        __atomic_compare_exchange_n(&log->used, &empty, sizeof *log, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    if (path == NULL && logged == NULL)
        return;
    char class[16], mode[16];
    unsigned long number;
    int error;
    if (text != NULL && *text != 0) {
        if (sscanf(text, "%15s %lu %d %15s", class, &number, &error, mode) != 4)
            give_up(text);
        for (plan.class = 0; plan.class < CLASSES && strcmp(class, names[plan.class]) != 0;)
            plan.class++;
        for (plan.mode = 0; plan.mode < SLOW && strcmp(mode, modes[plan.mode]) != 0;)
            plan.mode++;
        plan.number = number;
        plan.error = error;
    }
    install();
}

/* ---- Allocations. */

#define LARGE ((size_t)1 << 20)

static int cannot_allocate(size_t size) {
    if (size < LARGE || !fails(ALLOCATE, 0))
        return 0;
    note(NULL, NULL, 0);
    errno = plan.error;
    return 1;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) { return cannot_allocate(size) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all))
        all = SIZE_MAX;
    return cannot_allocate(all) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) { return cannot_allocate(size) ? NULL : __libc_realloc(block, size); }

void *aligned_alloc(size_t alignment, size_t size) {
    return cannot_allocate(size) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    if (cannot_allocate(size))
        return plan.error;
    void *made = __libc_memalign(alignment, size);
    if (made == NULL)
        return ENOMEM;
    *block = made;
    return 0;
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    if ((flags & MAP_ANONYMOUS) && cannot_allocate(size))
        return MAP_FAILED;
    long made = faults_system_call(SYS_mmap, (long)at, (long)size, protection, flags, file, offset);
    if (made < 0 && made > -4096) {
        errno = (int)-made;
        return MAP_FAILED;
    }
    return (void *)made;
}

void *mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset)
    __attribute__((alias("mmap")));

void *mremap(void *block, size_t old, size_t size, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *place = va_arg(more, void *);
    va_end(more);
    if (size > old && cannot_allocate(size))
        return MAP_FAILED;
    long made = faults_system_call(SYS_mremap, (long)block, (long)old, (long)size, flags, (long)place, 0);
    if (made < 0 && made > -4096) {
        errno = (int)-made;
        return MAP_FAILED;
    }
    return (void *)made;
}
