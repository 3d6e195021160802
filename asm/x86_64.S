// The context switch for x86-64, System V ABI. README.md draws the stacks and tells why it is like this.
//
// Convention of `switch` and `leave`, which the inline assembly in mod.rs follows (it jumps here, it
// does not call):
//
//      rax   the message; passes through untouched
//      rcx   where the caller wants to be continued: an `endbr64` right behind its jump
//      rsi   the context to continue
//      rdi   where to store the caller's own context (`switch` only)
//
// A context is a stack pointer, and this is what lies there:
//
//      +56   the caller's stack pointer points here (16-byte aligned); it is the CFA
//      +48   where to continue (rcx)
//      +40   rbp
//      +32   rbx
//      +24   r12
//      +16   r13
//       +8   r14
//       +0   r15

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(name) PASTE(CYGNET_PREFIX, name)

        .intel_syntax noprefix

        .macro  function name
        .globl  \name
        .hidden \name
        .type   \name, @function
        .balign 32
\name:
        .cfi_startproc
        .endm

        .macro  end name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        // Takes a context off its stack and continues it. The unwinding rules before the first line
        // are those of a complete frame (CFA = rsp + 56); each pop takes one of them back.
        .macro  resume
        pop     r15
        .cfi_adjust_cfa_offset -8
        .cfi_restore r15
        pop     r14
        .cfi_adjust_cfa_offset -8
        .cfi_restore r14
        pop     r13
        .cfi_adjust_cfa_offset -8
        .cfi_restore r13
        pop     r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore r12
        pop     rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbx
        pop     rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbp
        pop     rcx
        .cfi_adjust_cfa_offset -8
        .cfi_register rip, rcx
        // Not `ret`: the processor would predict a return to whoever was called last, on a stack that
        // is no longer the one in use.
        jmp     rcx
        .endm

        .text

        function NAME(switch)
        // Nothing is on the stack yet: a frame without a return address, which is in rcx.
        .cfi_def_cfa rsp, 0
        .cfi_register rip, rcx
        endbr64
        push    rcx
        .cfi_adjust_cfa_offset 8
        .cfi_offset rip, -8
        push    rbp
        .cfi_adjust_cfa_offset 8
        .cfi_offset rbp, -16
        push    rbx
        .cfi_adjust_cfa_offset 8
        .cfi_offset rbx, -24
        push    r12
        .cfi_adjust_cfa_offset 8
        .cfi_offset r12, -32
        push    r13
        .cfi_adjust_cfa_offset 8
        .cfi_offset r13, -40
        push    r14
        .cfi_adjust_cfa_offset 8
        .cfi_offset r14, -48
        push    r15
        .cfi_adjust_cfa_offset 8
        .cfi_offset r15, -56
        mov     [rdi], rsp
        // The hinge. Both stacks have the same layout below their stack pointers, so the rules that
        // hold here for the caller hold from the next instruction on for the context continued.
        mov     rsp, rsi
        resume
        end     NAME(switch)

        function NAME(leave)
        .cfi_def_cfa rsp, 0
        .cfi_register rip, rcx
        endbr64
        mov     rsp, rsi
        // From here on it is the frame of the other context, which nobody pushed in this routine.
        .cfi_def_cfa rsp, 56
        .cfi_offset rip, -8
        .cfi_offset rbp, -16
        .cfi_offset rbx, -24
        .cfi_offset r12, -32
        .cfi_offset r13, -40
        .cfi_offset r14, -48
        .cfi_offset r15, -56
        resume
        end     NAME(leave)

        // The root of a coroutine, continued by its first switch with the registers that `prepare` laid:
        //
        //      rbx   data
        //      r12   entry(data, message)
        //      r13   protector()
        //      rbp   0: ends a walk along frame pointers
        .globl  NAME(trampoline)
        .hidden NAME(trampoline)
        .type   NAME(trampoline), @function
        .balign 32
        .cfi_startproc
        // There is no caller: unwinding ends here, at each instruction.
        .cfi_def_cfa rsp, 16
        .cfi_undefined rip
        // Never executed. Unwinders look a return address up by the byte before it, and until the
        // coroutine has started, the address below is one.
        nop
        // The root of a coroutine whose first switch is one of those in pair.rs. It restores rbp and
        // rbx alone, so the other two are on the stack.
        .globl  NAME(start)
        .hidden NAME(start)
NAME(start):
        endbr64
        pop     r12
        pop     r13
NAME(trampoline):
        endbr64
        mov     rdi, rbx
        mov     rsi, rax
        call    r12
        // The entry returned, though it must not.
        call    r13
        ud2
        end     NAME(trampoline)

        // Calls rax(rdi) for somebody who expects all general registers back: those that a C function may
        // change are kept here. Nine of them and the return address leave the stack aligned.
        function NAME(cold_call)
        .irp    register, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11
        push    \register
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset \register, 0
        .endr
        call    rax
        .irp    register, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
        pop     \register
        .cfi_adjust_cfa_offset -8
        .cfi_restore \register
        .endr
        ret
        end     NAME(cold_call)

        // The three words of each thread.
        .section .tbss, "awT", @nobits
        .globl  NAME(thread_words)
        .hidden NAME(thread_words)
        .type   NAME(thread_words), @object
        .balign 8
NAME(thread_words):
        .zero   24
        .size   NAME(thread_words), 24

        // These routines may run with indirect branch tracking (every target of an indirect jump is an
        // `endbr64`), and not with a shadow stack: hence IBT (1) and not SHSTK (2).
        .section .note.gnu.property, "a", @note
        .balign 8
        .long   4, 16, 5                // sizes of name and description, NT_GNU_PROPERTY_TYPE_0
        .asciz  "GNU"
        .long   0xc0000002, 4, 1, 0     // GNU_PROPERTY_X86_FEATURE_1_AND, its size, IBT, padding

        .section .note.GNU-stack, "", @progbits
