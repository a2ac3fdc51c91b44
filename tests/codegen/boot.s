# The whole memory below 4 GiB's end that Bochs starts in: 4 KiB, from the reset vector to the call of one function.
#
# Tables of pages, the table of exceptions and the block of arguments are made by bochs.py, which says where they lie.
.set ROM, 0xfffff000
.set TABLES, 0x800000
.set BLOCK, 0xffff800000001000
.set EXCEPTIONS, 0xffff800000002000

.code16
start:
    lgdtl %cs:0xf000 + segments_at - start
    movl $0x40620, %eax              # physical address extension, SSE and its exceptions, XSAVE
    movl %eax, %cr4
    movl $TABLES, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx           # EFER: long mode, pages that hold no code
    rdmsr
    orl $0x900, %eax
    wrmsr
    movl $0x80010033, %eax           # pages, some of them read-only, protected mode
    movl %eax, %cr0
    ljmpl $8, $ROM + (long_mode - start)

.code64
long_mode:
    movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    lidt exceptions_at(%rip)
    xorl %ecx, %ecx
    xorl %edx, %edx
    movl $0x600e7, %eax              # state of SSE, AVX, AVX-512 and AMX
    xsetbv
    fninit
    movabs $BLOCK, %rbx
    movq 56(%rbx), %rsp
    movq (%rbx), %rdi
    movq 8(%rbx), %rsi
    movq 16(%rbx), %rdx
    movq 24(%rbx), %rcx
    movq 32(%rbx), %r8
    movq 40(%rbx), %r9
    callq *48(%rbx)

# Write "CENOTE+", then the bytes of each region that the block lists, to the port that Bochs prints.
    cld
    leaq returned(%rip), %rsi
    movl $7, %ecx
    movl $0xe9, %edx
    rep outsb
    addq $64, %rbx
1:  movq (%rbx), %rsi
    movq 8(%rbx), %rcx
    jrcxz power_off
    rep outsb
    addq $16, %rbx
    jmp 1b

# Write "CENOTE!", the address that could not be accessed, and what is on the stack.
exception:
    movq %cr2, %rax
    pushq %rax
    cld
    movl $0xe9, %edx
    leaq failed(%rip), %rsi
    movl $7, %ecx
    rep outsb
    movq %rsp, %rsi
    movl $40, %ecx
    rep outsb

power_off:
    movl $0x8900, %edx
    leaq shutdown(%rip), %rsi
    movl $8, %ecx
    rep outsb
    hlt

returned: .ascii "CENOTE+"
failed: .ascii "CENOTE!"
shutdown: .ascii "Shutdown"

.balign 8
segments: .quad 0, 0x00209b0000000000, 0x0000930000000000
segments_at:
    .word 23
    .long ROM + (segments - start)
exceptions_at:
    .word 511
    .quad EXCEPTIONS

# One handler every 16 bytes, which pushes its number.
.org 0x800
.set vector, 0
.rept 32
    .balign 16
    pushq $vector
    jmp exception
    .set vector, vector + 1
.endr

.org 0xff0
.code16
    jmp start
.org 0x1000
