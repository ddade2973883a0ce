/* Makes one system call of a process fail: preload it (LD_PRELOAD) into the command under test.
 *
 * File calls are caught by seccomp, which traps those of the C library, of the standard library and inline system
 * calls alike, and hands them to a signal handler. Sockets and pipes are left alone, except for standard output.
 * Allocations of 1 MiB or more are caught where the C library offers them.
 *
 * FAULTS_STATE names a file of `struct state`, which this library fills and which outlives the process.
 * FAULTS_PLAN is "CLASS NUMBER ERRNO MODE", or empty: count only. Calls of a class are counted from 1. The modes:
 *   once     call NUMBER fails
 *   onward   so do all after it
 *   each     each call fails the first time, and works when the same thread tries again (ERRNO is EINTR)
 *   short    each read and write moves half of the bytes that it could
 *
 * Linux on x86-64. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
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
#include <ucontext.h>
#include <unistd.h>

enum class { OPEN, READ, WRITE, SYNC, RENAME, UNLINK, LINK, OTHER, ALLOCATE, CLASSES };

static const char *const names[CLASSES] = {"open", "read",  "write", "sync", "rename",
                                           "unlink", "link", "other", "allocate"};

enum mode { ONCE, ONWARD, EACH, SHORT };

static const char *const modes[] = {"once", "onward", "each", "short"};

struct state {
    uint64_t seen[CLASSES];
    uint64_t struck;
    char place[256]; /* the first call that failed: its class and its path */
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
    /* Descriptors of what is read first: the copy fails as a read does. */
    {SYS_sendfile, WRITE, DESCRIPTOR}, {SYS_copy_file_range, READ, DESCRIPTOR},
    {SYS_fsync, SYNC, DESCRIPTOR},    {SYS_fdatasync, SYNC, DESCRIPTOR},
    {SYS_rename, RENAME, PATH},       {SYS_renameat, RENAME, PATH_AT},
    {SYS_renameat2, RENAME, PATH_AT}, {SYS_unlink, UNLINK, PATH},
    {SYS_unlinkat, UNLINK, PATH_AT},  {SYS_rmdir, UNLINK, PATH},
    {SYS_link, LINK, PATH},           {SYS_linkat, LINK, PATH_AT},
    {SYS_mkdir, OTHER, PATH},         {SYS_mkdirat, OTHER, PATH_AT},
    {SYS_ftruncate, OTHER, DESCRIPTOR}, {SYS_fchmod, OTHER, DESCRIPTOR},
    {SYS_flock, OTHER, DESCRIPTOR},
};

#define CALLS (sizeof calls / sizeof *calls)

static struct state nowhere, *state = &nowhere;
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

static void note(const struct call *call, const char *path, long descriptor) {
    if (__atomic_fetch_add(&state->struck, 1, __ATOMIC_SEQ_CST) != 0)
        return;
    size_t used = strlen(strcpy(state->place, names[plan.class]));
    state->place[used++] = ' ';
    size_t room = sizeof state->place - used - 1;
    if (path != NULL) {
        strncpy(state->place + used, path, room);
    } else if (call != NULL) {
        char link[40] = "/proc/self/fd/", digits[20];
        int count = 0;
        do
            digits[count++] = '0' + descriptor % 10;
        while ((descriptor /= 10) > 0);
        size_t end = strlen(link);
        while (count > 0)
            link[end++] = digits[--count];
        link[end] = 0;
        faults_system_call(SYS_readlink, (long)link, (long)(state->place + used), (long)room, 0, 0, 0);
    }
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
    registers[REG_RAX] = faults_system_call(info->si_syscall, arguments[0], arguments[1], arguments[2],
                                            arguments[3], arguments[4], arguments[5]);
}

static void give_up(const char *why) {
    fprintf(stderr, "faults: %s: %s\n", why, strerror(errno));
    _exit(99);
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

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_STATE"), *text = getenv("FAULTS_PLAN");
    if (path == NULL)
        return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *state) != 0)
        give_up(path);
    void *mapped = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        give_up(path);
    close(file);
    state = mapped;
    char class[16], mode[16];
    unsigned long number;
    int error;
    if (text != NULL && *text != 0) {
        if (sscanf(text, "%15s %lu %d %15s", class, &number, &error, mode) != 4)
            give_up(text);
        for (plan.class = 0; plan.class < CLASSES && strcmp(class, names[plan.class]) != 0;)
            plan.class++;
        for (plan.mode = 0; plan.mode < SHORT && strcmp(mode, modes[plan.mode]) != 0;)
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
