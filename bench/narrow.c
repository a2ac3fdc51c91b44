/* Answers CPUID as a CPU with AVX2 and without what came after it would: see bench/narrow.py, which compiles this and
   preloads it. Copies of libraries have RSM in the place of CPUID: as long, and undefined outside of the mode for system
   management, so the processor raises an exception there, which Linux turns into SIGILL. */

#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#define BIT(n) (1u << (n))

static unsigned long answers;

/* How often CPUID was answered: none would mean that nothing was narrowed. */
unsigned long narrowed_answers(void) { return answers; }

static void cpuid(unsigned leaf, unsigned subleaf, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
    __asm__ volatile("cpuid" : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(*d) : "0"(leaf), "2"(subleaf));
    if (leaf == 7 && subleaf == 0) {
        /* AVX-512: F DQ IFMA PF ER CD BW VL; VBMI VBMI2 VNNI BITALG VPOPCNTDQ; 4VNNIW 4FMAPS VP2INTERSECT FP16 */
        *b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));
        *c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));
        *d &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(23));
        /* AMX: BF16 TILE INT8 */
        *d &= ~(BIT(22) | BIT(24) | BIT(25));
    } else if (leaf == 7 && subleaf == 1) {
        /* AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA; AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10 */
        *a &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23));
        *d &= ~(BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19));
    } else if (leaf == 0xd && subleaf == 0) {
        *a &= ~(BIT(5) | BIT(6) | BIT(7) | BIT(17) | BIT(18)); /* state of AVX-512 and of tiles */
    } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) {
        *a = *b = *c = *d = 0; /* sizes of tiles, AVX10 */
    }
}

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *instruction = (const unsigned char *)registers[REG_RIP];
    unsigned a, b, c, d;

    (void)info;
    if (instruction[0] != 0x0f || instruction[1] != 0xaa) {
        signal(number, SIG_DFL); /* not ours: it occurs again when this returns, and ends the process */
        return;
    }
    cpuid((unsigned)registers[REG_RAX], (unsigned)registers[REG_RCX], &a, &b, &c, &d);
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
    __atomic_add_fetch(&answers, 1, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void install(void) {
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGILL, &action, 0);
}
